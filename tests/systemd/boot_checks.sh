#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# boot_checks.sh RESULTS: runs inside the container that boot.sh boots. Writes RESULTS/log
# and at the end RESULTS/done with the exit code.
set -uo pipefail

readonly RESULTS=$1
readonly SIX=1c400080004 # bpf perfmon sys_ptrace dac_read_search checkpoint_restore syslog
readonly THREE=10000080004 # SYS_PTRACE, DAC_READ_SEARCH, CHECKPOINT_RESTORE
readonly LIMIT_S=40
failures=0
checks=0
exec >"$RESULTS/log" 2>&1

within() { # within COMMAND…: until it succeeds, LIMIT_S at most
  local limit=$((SECONDS + LIMIT_S))
  until "$@"; do
    [ "$SECONDS" -lt "$limit" ] || return 1
    sleep 0.2
  done
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

property() { systemctl show --property "$2" --value "fleetprof-$1.service"; }
main_pid() { property "$1" MainPID; }
is_active() { [ "$(property "$1" ActiveState)" = active ]; }
restarted() { [ "$(property "$1" NRestarts)" -gt "$2" ] && is_active "$1"; }
status_of() { awk -v key="$2:" '$1 == key { print $2 }' "/proc/$1/status"; }
role_pid() { pgrep -P "$(main_pid agent)" -x "fleetprof-$1"; }
has_role() { [ -n "$(role_pid "$1")" ]; }
runs_as() { [ "$(stat -c %U "/proc/$1")" = "$2" ]; }
caps_are() { [ "$((16#$(status_of "$1" "$2")))" -eq "$((16#$3))" ]; }
opener_has_three() {
  local pid
  pid=$(role_pid open) || return 0 # nothing had to be opened yet
  caps_are "$pid" CapPrm "$THREE"
}
no_new_privs() { [ "$(status_of "$1" NoNewPrivs)" = 1 ]; }
sandboxed() { [ "$(status_of "$1" Seccomp)" = 2 ]; }
metric() { curl -fsS --max-time 5 http://127.0.0.1:7172/metrics | grep -qE "^$1"; }
batch_arrived() { metric 'fleetprof_agent_ship_batches_total\{result="stored"\} [1-9]'; }
has_kernel_frames() {
  curl -fsS --max-time 10 'http://127.0.0.1:7171/api/v1/query?type=cpu&format=folded&from=now-10m' |
    grep -q '_\[k\]'
}
nobody_left() { ! pgrep -u "$1" >/dev/null; }
stops() { systemctl stop "fleetprof-$1" && [ "$(property "$1" Result)" = success ]; }
reloads() {
  systemctl reload fleetprof-agent && within metric 'fleetprof_agent_config_last_reload_successful 1'
}
answers_root() { agentctl status >/dev/null; }
hidden_from() { ! setpriv --reuid nobody --regid nogroup --clear-groups ls "$1" >/dev/null 2>&1; }

check "the agent becomes ready" within is_active agent
check "the collector becomes ready" within is_active collector
agent=$(main_pid agent)
check "the sampler runs as the user fleetprof" runs_as "$agent" fleetprof
check "the sampler has its six capabilities and no other" caps_are "$agent" CapEff "$SIX"
check "no capability but the six can come back to it" caps_are "$agent" CapBnd "$SIX"
check "the sampler cannot gain privileges" no_new_privs "$agent"
check "the sampler's system calls are filtered" sandboxed "$agent"
for role in ship syms; do
  check "fleetprof-$role runs" within has_role "$role"
  pid=$(role_pid "$role")
  check "fleetprof-$role has no effective capability" caps_are "$pid" CapEff 0
  check "fleetprof-$role has no permitted capability" caps_are "$pid" CapPrm 0
  check "fleetprof-$role has system calls filtered" sandboxed "$pid"
done
check "fleetprof-open, where it was needed, has three capabilities" opener_has_three
collector=$(main_pid collector)
check "the collector runs as its own user" runs_as "$collector" fleetprof-collector
check "the collector has no capability" caps_are "$collector" CapEff 0
check "no capability can come to the collector" caps_are "$collector" CapBnd 0
check "the collector's system calls are filtered" sandboxed "$collector"
check "the spool is closed to others" hidden_from /var/lib/fleetprof
check "the store is closed to others" hidden_from /var/lib/fleetprof-collector
check "agentctl is answered" within answers_root
check "a batch gets from the agent to the collector" within batch_arrived
check "kernel frames have names" within has_kernel_frames
check "the agent reloads" reloads
restarts=$(property agent NRestarts)
kill -STOP "$(main_pid agent)"
check "a hung agent is replaced by the watchdog" within restarted agent "$restarts"
restarts=$(property agent NRestarts)
kill -KILL "$(main_pid agent)"
check "a killed agent is started again" within restarted agent "$restarts"
restarts=$(property collector NRestarts)
kill -KILL "$(main_pid collector)"
check "a killed collector is started again" within restarted collector "$restarts"
check "the agent stops cleanly" stops agent
check "no process of the agent is left" nobody_left fleetprof
check "the collector stops cleanly" stops collector
check "no process of the collector is left" nobody_left fleetprof-collector

if [ "$failures" -gt 0 ]; then
  echo "--- journal of both units"
  journalctl --no-pager -n 80 -o cat -u fleetprof-agent -u fleetprof-collector
fi
echo "$((checks - failures)) passed, $failures failed"
echo "$((failures > 0))" >"$RESULTS/done"
