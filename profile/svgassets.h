// SPDX-License-Identifier: Apache-2.0
//
// svgassets: the style and the script that every flame graph carries inside itself. The
// sources are profile/svg/flame.css and profile/svg/flame.js; profile/svg/embed.cmake turns
// them into NUL-terminated byte arrays at build time. Private to profile/.
// Trust: our own bytes; neither holds the end of a CDATA section, which a test checks.
// Threads: constants.
#pragma once

extern const char fp_asset_flame_css[];
extern const char fp_asset_flame_js[];
