#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One command from a checkout to a flame graph of this machine: installs what is missing
# from Debian, builds, starts a collector and an agent of its own beside a demo program,
# prints where the live page is and the hottest paths, and stops without leaving anything.
# Nothing is installed outside Debian's packages; state lives in one temporary directory.
set -uo pipefail

readonly SOURCE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly LOCK_FILE=/run/fleetprof-quickstart.lock
readonly WINDOW_S=10        # of one batch; short, so that first data is there soon
readonly FIRST_DATA_S=60    # wait for the first batch at most this long
readonly STOP_S=20          # wait for a program to stop at most this long
readonly COLLECTOR_USER=daemon # any account without rights that every Debian has
readonly SHIP_USER=nobody

seconds=0
port=7171
build_dir=
keep_build=no
run_dir=
stopping=no
agent_pid= collector_pid= demo_pid=

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
      --keep-build) build_dir=$2; keep_build=yes; shift 2 ;;
      -h | --help) usage; exit 0 ;;
      *) fail "unknown argument '$1'" "See --help." ;;
    esac
  done
  [[ $seconds =~ ^[0-9]{1,6}$ ]] || fail "--seconds takes a whole number, not '$seconds'"
  [[ $port =~ ^[0-9]{1,5}$ ]] && [ "$port" -ge 1 ] && [ "$port" -le 65534 ] ||
    fail "--port takes a number from 1 to 65534, not '$port'"
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
    "Boot a distribution kernel of Linux 5.10 or later with CONFIG_DEBUG_INFO_BTF."
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
  cat >"$run_dir/collector.conf" <<CONFIG
CONFIG
  cat >"$run_dir/agent.conf" <<CONFIG
CONFIG
}
