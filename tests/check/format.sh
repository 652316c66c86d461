#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# format.sh <source root> [build directory]: every C source is as clang-format writes it.
set -eu
here=$(dirname "$0")
command -v clang-format >/dev/null || {
	echo "clang-format is not installed" >&2
	exit 77
}
cd "$1"
"$here/sources.sh" . '*.c' '*.h' | tr '\n' '\0' | xargs -0 clang-format --dry-run -Werror
