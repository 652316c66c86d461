#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mixed.sh SECONDS [FOLDER]: three loads at once for SECONDS: a CPU-bound thread, a compile
# loop and a ping-pong through pipes. FOLDER holds the reference programs (default: the
# script's own). Prints each program's line of truth; ends all three if it is ended.
set -eu

seconds=${1:?usage: mixed.sh SECONDS [FOLDER]}
folder=${2:-$(dirname "$0")}
pids=

stop() {
	for pid in $pids; do
		kill "$pid" 2>/dev/null || true
	done
}
trap 'stop; wait; exit 143' INT TERM

"$folder/spin" --seconds "$seconds" --threads 1 &
pids="$pids $!"
"$folder/storm" --seconds "$seconds" --threads 1 &
pids="$pids $!"
"$folder/pingpong" --seconds "$seconds" --processes &
pids="$pids $!"

status=0
for pid in $pids; do
	wait "$pid" || status=1
done
exit "$status"
