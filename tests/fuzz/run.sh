#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh <fuzz program> <corpus directory>: a bounded run over a copy of the corpus, so
# that the tree is not written to. FP_FUZZ_SECONDS sets its length.
set -eu
program=$1
corpus=$2
seconds=${FP_FUZZ_SECONDS:-5}
[ "${FP_TEST_FULL:-0}" = 1 ] && seconds=${FP_FUZZ_SECONDS:-300}

[ -n "$(ls -A "$corpus" 2>/dev/null)" ] || {
	echo "the corpus '$corpus' is missing or empty" >&2
	exit 1
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/corpus"
cp -r "$corpus"/. "$scratch/corpus"
cd "$scratch"
status=0
"$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
	-artifact_prefix="$scratch/" "$scratch/corpus" >"$scratch/log" 2>&1 || status=$?
tail -n 40 "$scratch/log"
for artifact in "$scratch"/crash-* "$scratch"/oom-* "$scratch"/timeout-* "$scratch"/leak-*; do
	[ -e "$artifact" ] || continue
	echo "input that fails ($(basename "$artifact")), base64:"
	head -c 65536 "$artifact" | base64
done
exit "$status"
