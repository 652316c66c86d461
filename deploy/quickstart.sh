#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One command from a checkout to a flame graph of this machine: installs what is missing
# from Debian, builds, starts a collector and an agent of its own beside a demo program,
# prints where the live page is and the hottest paths, and stops without leaving anything.
# Nothing is installed outside Debian's packages; state lives in one temporary directory.
set -uo pipefail

SOURCE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly SOURCE_DIR
readonly LOCK_FILE=/run/fleetprof-quickstart.lock
readonly RUN_PREFIX=/var/lib/fleetprof-quickstart # /run and /tmp may be mounted noexec
readonly HZ=99              # per CPU; a fleet runs at 19
readonly WINDOW_S=10        # of one batch; short, so that first data is there soon
readonly FIRST_DATA_S=120   # wait for the first batch at most this long
readonly FUNCTIONS=12       # rows of the table
readonly PATHS=10           # lines of each list of paths
readonly STOP_S=20          # wait for a program to stop at most this long
readonly COLLECTOR_USER=daemon # any account without rights that every Debian has
readonly AGENT_USER=nobody

seconds=0
port=7171
build_dir=''
run_dir=''
agent_pid=''
collector_pid=''
demo_pid=''
started_pid='' # of the last start
started_s=0

say() { printf '%s\n' "$*"; }
step() { printf '==> %s\n' "$*"; }
fail() {
  printf 'quickstart: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '            %s\n' "$line" >&2; done
  exit 1
}

usage() {
  cat <<USAGE
Usage: sudo deploy/quickstart.sh [--seconds N] [--port P] [--keep-build DIR]

  --seconds N       profile for N seconds, then stop (default: until Ctrl-C)
  --port P          port of the live page on 127.0.0.1 (default 7171); the agent's
                    metrics are on the next one
  --keep-build DIR  build in DIR and keep it; the next run with it starts faster
USAGE
}

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --seconds | --port | --keep-build)
        [ $# -ge 2 ] || fail "$1 needs a value" "See --help." ;;
    esac
    case $1 in
      --seconds) seconds=$2; shift 2 ;;
      --port) port=$2; shift 2 ;;
      --keep-build) build_dir=$(realpath -m -- "$2"); shift 2 ;;
      -h | --help) usage; exit 0 ;;
      *) fail "unknown argument '$1'" "See --help." ;;
    esac
  done
  [[ $seconds =~ ^[0-9]{1,6}$ ]] || fail "--seconds takes a whole number, not '$seconds'"
  if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || [ "$port" -gt 65534 ]; then
    fail "--port takes a number from 1 to 65534, not '$port'"
  fi
  seconds=$((10#$seconds))
  if [ "$seconds" -ne 0 ] && [ "$seconds" -lt $((2 * WINDOW_S)) ]; then
    fail "--seconds $seconds is too short" \
      "One batch covers $WINDOW_S s; give at least $((2 * WINDOW_S))."
  fi
}

check_root() {
  [ "$(id -u)" -eq 0 ] || fail "needs root: profiling a whole host loads BPF programs" \
    "Run: sudo $0"
}

# One run at a time: the lock lives as long as this shell and is never inherited (9>&-).
take_lock() {
  exec 9<>"$LOCK_FILE" || fail "cannot open '$LOCK_FILE'"
  if ! flock -n 9; then
    fail "another quickstart is running: $(head -c 200 "$LOCK_FILE" | tr -d '\n')" \
      "Use its page, or stop it with Ctrl-C where it runs."
  fi
  : >"$LOCK_FILE"
  printf 'pid %s, page http://127.0.0.1:%s/\n' "$$" "$port" >&9
}

port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

check_ports() {
  local taken
  for taken in "$port" $((port + 1)); do
    if port_taken "$taken"; then
      fail "port $taken on 127.0.0.1 is in use by another program" \
        "See which: ss -ltnp 'sport = :$taken'" \
        "Take others: sudo $0 --port $((port + 100))"
    fi
  done
}

check_kernel() {
  [ -r /sys/kernel/btf/vmlinux ] || fail "this kernel has no BTF (/sys/kernel/btf/vmlinux)" \
    "Boot a distribution kernel of Linux 5.17 or later with CONFIG_DEBUG_INFO_BTF."
}

package_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_packages() {
  local wanted package missing=()
  command -v dpkg-query >/dev/null || fail "this is no Debian: dpkg-query is missing" \
    "Install what deploy/packages-build.txt lists, and build as docs/install.md says."
  wanted=$(grep -v '^#' "$SOURCE_DIR/deploy/packages-build.txt")
  for package in $wanted curl util-linux; do
    package_installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    step "Debian packages: nothing is missing"
    return
  fi
  step "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  local log=$run_dir/apt.log
  if ! { apt-get -o DPkg::Lock::Timeout=300 update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y \
      --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null 9>&-; then
    tail -n 15 "$log" >&2
    fail "apt-get could not install the packages (its last lines are above)"
  fi
}

build() {
  [ -n "$build_dir" ] || build_dir=$run_dir/build
  step "Building fleetprof (in '$build_dir')"
  local log=$run_dir/build.log
  mkdir -p "$build_dir" || fail "cannot create '$build_dir'"
  if ! { cmake -S "$SOURCE_DIR" -B "$build_dir" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo &&
    cmake --build "$build_dir" --target fleetprof-agent fleetprof-collector agentctl &&
    cc -O2 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread \
      "$SOURCE_DIR/deploy/demo/demo.c" -o "$run_dir/bin/fleetprof-demo"; } \
    >"$log" 2>&1 </dev/null 9>&-; then
    tail -n 30 "$log" >&2
    fail "the build failed (its last lines are above)"
  fi
  # Copies, so that the programs can be read by the accounts that run them.
  install -m 0755 "$build_dir/agent/fleetprof-agent" "$build_dir/agent/agentctl" \
    "$build_dir/collector/fleetprof-collector" "$run_dir/bin/" ||
    fail "the built programs cannot be copied to '$run_dir/bin'"
}

write_config() {
  mkdir -p "$run_dir/store" "$run_dir/agent"
  chown "$COLLECTOR_USER" "$run_dir/store"
  cat >"$run_dir/collector.conf" <<CONFIG
[http]
listen = 127.0.0.1:$port
[store]
directory = $run_dir/store
CONFIG
  cat >"$run_dir/agent.conf" <<CONFIG
[cpu]
hz = $HZ
[window]
length = ${WINDOW_S}s
jitter_percent = 0
drain_interval = 2s
[collector]
url = http://127.0.0.1:$port
retry_max = 5s
[spool]
directory = $run_dir/agent/spool
[agent]
user = $AGENT_USER
state_directory = $run_dir/agent
lock_file = $run_dir/agent.lock
control_socket = $run_dir/agent.sock
control_group =
listen = 127.0.0.1:$((port + 1))
CONFIG
}

# start NAME COMMAND…: in a session of its own, so that Ctrl-C reaches this script alone,
# which stops things in order; and with a death signal, so that nothing outlives it. Sets
# started_pid.
start() {
  local log=$run_dir/$1.log
  shift
  setsid setpriv --pdeathsig TERM "$@" >"$log" 2>&1 </dev/null 9>&- &
  started_pid=$!
}

# fail_with_log NAME WHAT
fail_with_log() {
  tail -n 15 "$run_dir/$1.log" >&2
  fail "the $1 $2 (its last lines are above)"
}

alive() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }

# await NAME PID SECONDS COMMAND…: until the command succeeds.
await() {
  local name=$1 pid=$2 limit=$((SECONDS + $3))
  shift 3
  until "$@"; do
    alive "$pid" || fail_with_log "$name" "ended"
    alive "$collector_pid" || fail_with_log collector "ended"
    [ "$SECONDS" -lt "$limit" ] || fail_with_log "$name" "is not ready in time"
    sleep 0.2
  done
}

answers() { curl -fsS --max-time 5 -o /dev/null "$1" 2>/dev/null; }

start_all() {
  step "Starting the collector on 127.0.0.1:$port (as user '$COLLECTOR_USER')"
  start collector --reuid "$COLLECTOR_USER" --regid "$(id -g "$COLLECTOR_USER")" \
    --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
    "$run_dir/bin/fleetprof-collector" "--config=$run_dir/collector.conf"
  collector_pid=$started_pid
  await collector "$collector_pid" 60 answers "http://127.0.0.1:$port/healthz"
  step "Starting the agent: CPU at $HZ Hz and off-CPU, a batch every $WINDOW_S s"
  start agent "$run_dir/bin/fleetprof-agent" "--config=$run_dir/agent.conf"
  agent_pid=$started_pid
  await agent "$agent_pid" 60 answers "http://127.0.0.1:$((port + 1))/readyz"
  step "Starting the demo program (its call tree is in deploy/demo/demo.c)"
  start demo "$run_dir/bin/fleetprof-demo"
  demo_pid=$started_pid
}

# query PARAMETER…: what the collector has of the last minutes.
query() {
  local parameter words=()
  for parameter in "$@"; do words+=(--data-urlencode "$parameter"); done
  curl -fsS --max-time 30 --get "http://127.0.0.1:$port/api/v1/query" "${words[@]}" \
    --data-urlencode "root=executable" --data-urlencode "from=now-15m"
}

# An answer that shows a function of the demo: then every stage has worked. Read to its end:
# grep -q would leave at the match, and under pipefail curl's broken pipe would say no.
first_data() { query type=cpu format=folded 2>/dev/null | grep parse_query >/dev/null; }

# paths TYPE: the stacks that hold most, a line each, as far as it fits. CPU as a share; time
# off the CPU in seconds (threads wait side by side, a share of that says nothing) and without
# the kernel's frames, which all end in schedule.
paths() {
  local kernel=1
  [ "$1" = cpu ] || kernel=0
  query type="$1" format=folded kernel="$kernel" | awk '{
    value = $NF
    sub(/ [0-9]+$/, "")
    printf "%.0f\t%s\n", value, $0
    total += value
  }
  END { printf "%.0f\t\n", total }' | sort -rn | awk -F '\t' -v type="$1" -v lines="$PATHS" '
    NR == 1 { total = $1; next }
    NR <= lines + 1 {
      if (type == "cpu") amount = sprintf("%6.1f %%", 100 * $1 / total)
      else amount = sprintf("%6.1f s", $1 / 1e9)
      path = length($2) <= 90 ? $2 : substr($2, 1, 28) " … " substr($2, length($2) - 58)
      printf "%s  %s\n", amount, path
    }'
}

show_profile() {
  say ""
  query type=cpu format=table rows="$FUNCTIONS" || fail "the collector gave no table"
  say ""
  say "Hottest paths on CPU, outermost first:"
  paths cpu
  say ""
  say "Where threads waited, outermost first:"
  paths off_cpu
}

wait_for_data() {
  step "Waiting for the first batch (windows of $WINDOW_S s)"
  await agent "$agent_pid" "$FIRST_DATA_S" first_data
}

announce() {
  say ""
  say "Live page:     http://127.0.0.1:$port/"
  say "Agent metrics: http://127.0.0.1:$((port + 1))/metrics"
  say "Snapshot:      sudo $run_dir/bin/agentctl --socket $run_dir/agent.sock snapshot --pid $demo_pid"
}

# Ends when the time is over or a program is gone; Ctrl-C is on_signal's.
keep_running() {
  local until=$((started_s + seconds))
  [ "$seconds" -ne 0 ] || say "Running until Ctrl-C."
  while [ "$seconds" -eq 0 ] || [ "$SECONDS" -lt "$until" ]; do
    alive "$agent_pid" || fail_with_log agent "ended"
    alive "$collector_pid" || fail_with_log collector "ended"
    sleep 0.5
  done
}

stop_one() {
  local name=$1 pid=$2 limit=$((SECONDS + STOP_S))
  alive "$pid" || return 0
  kill -TERM "$pid"
  while alive "$pid"; do
    if [ "$SECONDS" -ge "$limit" ]; then
      say "quickstart: the $name (pid $pid) does not stop, killing it" >&2
      kill -KILL "$pid"
      break
    fi
    sleep 0.1
  done
  wait "$pid" 2>/dev/null
}

# The agent before the collector, so that its last window still finds a receiver.
cleanup() {
  local status=$?
  trap '' INT TERM HUP
  stop_one "demo program" "$demo_pid"
  stop_one agent "$agent_pid"
  stop_one collector "$collector_pid"
  [ -z "$run_dir" ] || rm -rf -- "$run_dir"
  rm -f -- "$LOCK_FILE" # still locked, by us
  [ -z "$agent_pid" ] || step "Stopped; nothing is left running."
  exit "$status"
}

# Ctrl-C is how a run ends; before everything runs it is an interruption.
on_signal() {
  say ""
  [ "$started_s" -ne 0 ] || exit 130
  exit 0
}

# Whatever an earlier run that was killed left behind; the lock says nobody uses it.
remove_stale() {
  local directory
  for directory in "$RUN_PREFIX".*; do
    [ -d "$directory" ] && rm -rf -- "$directory"
  done
}

main() {
  parse_arguments "$@"
  check_root
  take_lock
  check_ports
  check_kernel
  remove_stale
  trap cleanup EXIT
  trap on_signal INT TERM HUP
  run_dir=$(mktemp -d "$RUN_PREFIX.XXXXXX") || fail "cannot create a directory in /var/lib"
  chmod 0711 "$run_dir"
  mkdir -m 0755 "$run_dir/bin"
  install_packages
  build
  write_config
  start_all
  started_s=$SECONDS
  wait_for_data
  show_profile
  announce
  keep_running
}

main "$@"
