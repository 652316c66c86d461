#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tidy.sh <source root> <build directory>: clang-tidy with the tree's .clang-tidy over all
# user-space sources in the build's compile_commands.json; tests and benchmarks, which
# repeat themselves on purpose, are left out. Naming files as further arguments checks those
# alone. The static analyzer looks at each function by itself; with FP_TEST_FULL=1 through calls as
# well, which takes five times as long.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || {
	echo "clang-tidy is not installed" >&2
	exit 77
}
cd "$1"
build=$2
shift 2
[ -f "$build/compile_commands.json" ] || {
	echo "'$build' has no compile_commands.json, configure it first" >&2
	exit 1
}
if [ $# -eq 0 ]; then
	# Only what this build compiles: BPF sources are not in the database.
	for file in $("$here/sources.sh" . '*.c' | grep -Ev '^(tests|bench)/'); do
		grep -q "/$file\"" "$build/compile_commands.json" && set -- "$@" "$file"
	done
fi
case ${FP_TEST_FULL:-0} in
0) mode=shallow ;;
*) mode=deep ;;
esac
analyzer="--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang"
# shellcheck disable=SC2086 # three words
printf '%s\0' "$@" | xargs -0 -n 4 -P "$(nproc)" "$tidy" -p "$build" --quiet \
	--warnings-as-errors='*' $analyzer --extra-arg="mode=$mode"
