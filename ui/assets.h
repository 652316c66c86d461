// SPDX-License-Identifier: Apache-2.0
//
// assets: the files of the page, embedded into the collector when it is built
// (ui/embed.cmake), so that the page needs no directory of its own.
#pragma once

#include <stddef.h>

struct fp_ui_asset {
	const char *name; // as in /assets/<name>
	const char *content_type;
	const unsigned char *bytes;
	size_t size;
};
extern const struct fp_ui_asset fp_ui_assets[];
extern const size_t fp_ui_assets_count;
