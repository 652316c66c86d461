#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# docs.sh <page> <program> <argument …>: the page is what the program prints today.
# With FP_DOCS_WRITE=1 the page is written instead.
set -eu
page=$1
shift
if [ "${FP_DOCS_WRITE:-0}" = 1 ]; then
	"$@" >"$page.new"
	mv "$page.new" "$page"
	exit
fi
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
"$@" >"$printed"
[ -s "$printed" ] || {
	echo "'$*' printed nothing" >&2
	exit 1
}
diff -u "$page" "$printed" || {
	echo "'$page' is stale; renew it with: cmake --build <build directory> --target docs" >&2
	exit 1
}
