// SPDX-License-Identifier: Apache-2.0
//
// settingvalue: the text form of one setting, private to the settings files. Input is
// text of an administrator (file, environment, flag); output is the field of the settings
// struct. Nothing is rounded or guessed: a number needs its unit, a fraction is refused.
// Ownership: string fields are replaced, the old one is freed. Threads: no state.
#pragma once

#include "settings.h"

// Parses text into the row's field. -EINVAL: *cause got the reason; the field is untouched.
int fp_setting_parse(const struct fp_setting *row, void *settings, const char *text,
		     struct fp_buf *cause);
// The same for one more line of a FP_SETTING_LINES row.
int fp_setting_add_line(const struct fp_setting *row, void *settings, const char *text,
			struct fp_buf *cause);
// Appends the field in the syntax fp_setting_parse reads.
int fp_setting_format(const struct fp_setting *row, const void *settings, struct fp_buf *text);
// Appends what is allowed, for people: "1 to 1000", "yes, no", "1s to 1h".
int fp_setting_format_range(const struct fp_setting *row, struct fp_buf *text);
