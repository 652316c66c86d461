#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# quickstart.sh: the README's first command as a new user runs it, with --seconds:
# the page answers while it runs, the table shows the demo's paths with their shares, the
# quality line is there, a second run is refused, and afterwards no process, BPF program, map
# or directory is left. Before that: what it says when it cannot start.
set -uo pipefail

SOURCE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly QUICKSTART=$SOURCE_DIR/deploy/quickstart.sh
# Built from nothing with FP_TEST_FULL, else in the build that is tested, which has the same flags.
if [ "${FP_TEST_FULL:-0}" = 1 ]; then
  SECONDS_TO_RUN=45
  KEPT_BUILD=
else
  SECONDS_TO_RUN=20
  KEPT_BUILD=${FP_BINARY_DIR:-}
fi
readonly SECONDS_TO_RUN KEPT_BUILD
readonly START_LIMIT_S=600 # a build from nothing on a busy machine
failures=0
checks=0

[ "$(id -u)" -eq 0 ] || {
  echo "skipped: needs root to load BPF programs"
  exit 77
}
[ -r /sys/kernel/btf/vmlinux ] || {
  echo "skipped: this kernel has no BTF"
  exit 77
}

check() { # check SENTENCE COMMAND…
  local sentence=$1
  shift
  checks=$((checks + 1))
  if "$@"; then
    echo "ok: $sentence"
  else
    echo "FAILED: $sentence"
    failures=$((failures + 1))
  fi
}

work=$(mktemp -d)
running=''
cleanup() {
  [ -z "$running" ] || kill -TERM "$running" 2>/dev/null
  rm -rf -- "$work"
}
trap cleanup EXIT

free_port() { # one whose neighbour is free too
  python3 - <<'PYTHON'
import socket
while True:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        try:
            two.bind(("127.0.0.1", port + 1))
        except OSError:
            continue
        print(port)
        break
PYTHON
}

refuses() { # refuses PATTERN COMMAND…: exit code 1 and the sentence
  local pattern=$1 output
  shift
  local status
  output=$("$@" 2>&1 </dev/null)
  status=$?
  if [ "$status" -ne 1 ] || ! grep -q -- "$pattern" <<<"$output"; then
    tail -n 5 <<<"exit code $status: $output"
    return 1
  fi
}
has() { grep -qE -- "$1" "$2"; }
page_answers() {
  local page
  page=$(curl -fsS --max-time 10 "http://127.0.0.1:$port/") && grep -qi '<html' <<<"$page"
}
demo_stacks() {
  curl -fsS --max-time 30 --get "http://127.0.0.1:$port/api/v1/query" -d format=folded \
    --data-urlencode 'selector={executable="fleetprof-demo"}'
}
# Asked of the collector: among a busy host's waiting threads the demo's may not lead.
demo_waits() {
  curl -fsS --max-time 30 --get "http://127.0.0.1:$port/api/v1/query" -d format=folded \
    -d type=off_cpu --data-urlencode 'selector={executable="fleetprof-demo"}' |
    grep -E 'wait_for_(disk|request)' >/dev/null
}
# 7 parts of 10 of handle_request are parse_query's, give or take four standard errors.
parse_query_leads() {
  demo_stacks | awk '
    /;handle_request;/ { all += $NF }
    /;handle_request;parse_query;/ { part += $NF }
    END {
      printf "parse_query: %d of %d samples\n", part, all
      exit !(all > 0 && (part / all - 0.7) ^ 2 <= 16 * 0.7 * 0.3 / all)
    }'
}
# BPF objects that the agent of this run holds: `prog 12`, `map 34`. Others may run beside it.
held_objects() {
  local pid
  for pid in $(pgrep -f '^/var/lib/fleetprof-quickstart[.][^/]*/bin/fleetprof-agent'); do
    sed -n 's/^\(prog\|map\)_id:[[:space:]]*/\1 /p' "/proc/$pid"/fdinfo/* 2>/dev/null
  done | sort -u
}
objects_gone() {
  local kind id left=0
  while read -r kind id; do
    if bpftool "$kind" show id "$id" >/dev/null 2>&1; then
      echo "$kind $id is still there"
      left=1
    fi
  done <"$work/objects"
  return "$left"
}
nothing_left() { [ -z "$(pgrep -f '/fleetprof-quickstart[.]')" ]; }
no_directory() { ! compgen -G '/var/lib/fleetprof-quickstart.*' >/dev/null; }

check "it says what --port takes" refuses "takes a number" "$QUICKSTART" --port 0
check "it says that a run is too short" refuses "too short" "$QUICKSTART" --seconds 5
check "it says that an argument is unknown" refuses "unknown argument" "$QUICKSTART" --nonsense
check "it says that it needs root" refuses "needs root" \
  setpriv --reuid nobody --regid nogroup --clear-groups bash "$QUICKSTART"

port=$(free_port)
python3 -c "
import socket, time
s = socket.socket(); s.bind(('127.0.0.1', $port)); s.listen()
time.sleep(60)" &
holder=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
check "it says that a port is taken" refuses "port $port on 127.0.0.1 is in use" \
  "$QUICKSTART" --port "$port"
kill "$holder"
wait "$holder" 2>/dev/null

port=$(free_port)
"$QUICKSTART" --seconds "$SECONDS_TO_RUN" --port "$port" --keep-build "${KEPT_BUILD:-$work/build}" \
  >"$work/output" 2>&1 </dev/null &
running=$!
limit=$((SECONDS + START_LIMIT_S))
until grep -q '^Live page:' "$work/output" || ! kill -0 "$running" 2>/dev/null ||
  [ "$SECONDS" -ge "$limit" ]; do sleep 0.5; done
check "the page answers while it runs" page_answers
check "a second run is refused" refuses "another quickstart is running" "$QUICKSTART"
check "parse_query has its 7 parts of 10 of handle_request" parse_query_leads
check "off-CPU time shows the demo's waits" demo_waits
held_objects >"$work/objects"
check "its BPF programs and maps are there" has '^(prog|map) [0-9]+$' "$work/objects"
wait "$running"
status=$?
running=''
check "it ends by itself with exit code 0" test "$status" -eq 0
check "it says where the page is" has "^Live page: +http://127.0.0.1:$port/" "$work/output"
for function in handle_request parse_query split_words lower_case rank_results; do
  check "the table shows $function" has "$function" "$work/output"
done
check "off-CPU paths are printed with their time" has "^ *[0-9.]+ s  .*;" "$work/output"
check "the quality of the profile is said" has "[Ss]amples.*(expected|predict)" "$work/output"
sleep 1 # the kernel frees programs and maps after a grace period
check "no process is left" nothing_left
check "no BPF program or map is left" objects_gone
check "no directory is left" no_directory

if [ "$failures" -gt 0 ]; then
  echo "--- what quickstart.sh printed"
  tail -n 100 "$work/output"
fi
echo "$((checks - failures)) passed, $failures failed"
[ "$failures" -eq 0 ]
