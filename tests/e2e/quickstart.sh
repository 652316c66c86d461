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
readonly SECONDS_TO_RUN=45
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
objects() { # BPF objects that carry our names
  bpftool prog show 2>/dev/null | grep -E 'name (cpu_|offcpu_)' | awk '{print "prog", $1}'
  bpftool map show 2>/dev/null | grep -E 'name (cpu_|offcpu_|departures)' | awk '{print "map", $1}'
}
has() { grep -qE -- "$1" "$2"; }
page_answers() { curl -fsS --max-time 10 "http://127.0.0.1:$port/" | grep -qi '<html'; }
share_of() { # total share of a function in the first table, without the percent sign
  awk -v name="$1" '$0 ~ "(^|[^[:alnum:]_])" name "([^[:alnum:]_]|$)" {
    for (i = 1; i <= NF; i++) if ($i ~ /%$/) { gsub(/[%,]/, "", $i); if ($i + 0 > best) best = $i + 0 }
  } END { print best + 0 }' "$work/output"
}
# 7 parts of 10 go to parse_query; a third of the whole run's CPU samples is enough to tell.
parse_query_leads() {
  awk -v all="$(share_of handle_request)" -v part="$(share_of parse_query)" \
    'BEGIN { exit !(all > 0 && part / all > 0.55 && part / all < 0.85) }'
}
nothing_left() { [ -z "$(pgrep -f '/fleetprof-quickstart[.]')" ]; }
same_objects() { diff "$work/objects.before" "$work/objects.after"; }
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

objects >"$work/objects.before"
port=$(free_port)
"$QUICKSTART" --seconds "$SECONDS_TO_RUN" --port "$port" --keep-build "$work/build" \
  >"$work/output" 2>&1 </dev/null &
running=$!
limit=$((SECONDS + START_LIMIT_S))
until grep -q '^Live page:' "$work/output" || ! kill -0 "$running" 2>/dev/null ||
  [ "$SECONDS" -ge "$limit" ]; do sleep 0.5; done
check "the page answers while it runs" page_answers
check "a second run is refused" refuses "another quickstart is running" "$QUICKSTART"
check "its BPF programs run" test -n "$(objects)"
wait "$running"
status=$?
running=''
check "it ends by itself with exit code 0" test "$status" -eq 0
check "it says where the page is" has "^Live page: +http://127.0.0.1:$port/" "$work/output"
for function in handle_request parse_query split_words lower_case rank_results; do
  check "the table shows $function" has "$function" "$work/output"
done
check "parse_query has its 7 parts of 10 of handle_request" parse_query_leads
check "off-CPU time shows the demo's waits" has "wait_for_(disk|request)" "$work/output"
check "the quality of the profile is said" has "[Ss]amples.*(expected|predict)" "$work/output"
sleep 1 # the kernel frees programs and maps after a grace period
objects >"$work/objects.after"
check "no process is left" nothing_left
check "no BPF program or map is left" same_objects
check "no directory is left" no_directory

if [ "$failures" -gt 0 ]; then
  echo "--- what quickstart.sh printed"
  tail -n 100 "$work/output"
fi
echo "$((checks - failures)) passed, $failures failed"
[ "$failures" -eq 0 ]
