#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# sources.sh <source root> [pattern …]: the tree's own files, one a line, relative to the
# root: what git tracks or would track, or in an unpacked archive all but the build trees.
set -eu
cd "$1"
shift
if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
	git -c safe.directory='*' ls-files --cached --others --exclude-standard -- "$@" | sort -u |
		while IFS= read -r file; do
			# A file deleted but not yet committed is still in the index.
			[ ! -e "$file" ] || printf '%s\n' "$file"
		done
	exit
fi
[ $# -gt 0 ] || set -- '*'
for pattern in "$@"; do
	find . -path './build*' -prune -o -path ./.git -prune -o -type f -name "$pattern" -print
done | sed 's|^\./||' | sort -u
