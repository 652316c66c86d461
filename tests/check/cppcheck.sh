#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cppcheck.sh <source root> <build directory>: cppcheck over user space. Tests repeat
# themselves on purpose and BPF is not C for an ordinary machine; both are left out.
# Suppressed, each for its reason:
#   missingInclude*    system and generated headers are not searched, by design of the tool
#   memleak            does not see cleanup attributes and calls every owning local a leak;
#                      LeakSanitizer asks the same question in all user-space tests
#   legacyUninitvar, ctuuninitvar
#                      do not follow outputs filled through a pointer; gcc's and clang's
#                      own analyses, both on, do
#   internalAstError   the statement expressions of common/cleanup.h
#   autoVariables in collector/append.c
#                      the queue of waiting appends lives on their stacks, and each leaves
#                      it before it returns: that is the design of that file
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v cppcheck >/dev/null || {
	echo "cppcheck is not installed" >&2
	exit 77
}
cd "$1"
build=$2
cache=$build/cppcheck
mkdir -p "$cache"
"$here/sources.sh" . '*.c' | grep -Ev '^(tests|bench|bpf)/' >"$cache/files"
cppcheck --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
	--error-exitcode=1 --quiet --cppcheck-build-dir="$cache" -j "$(nproc)" \
	-D_GNU_SOURCE -D__x86_64__ -DFP_VERSION='"0"' \
	--include="$here/cppcheck.h" -I . \
	--suppress=missingIncludeSystem --suppress=missingInclude --suppress=memleak \
	--suppress=legacyUninitvar --suppress=ctuuninitvar --suppress=internalAstError \
	--suppress=autoVariables:collector/append.c \
	--file-list="$cache/files"
