#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
#
# The first process of the test machine. Runs our programs on its kernel and reports what
# they print, each in a section; boot.py judges, and switches the machine off when it hangs.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t securityfs security /sys/kernel/security
mount -t cgroup2 cgroup /sys/fs/cgroup
stty -F /dev/ttyS1 -opost
exec </dev/null >/dev/ttyS1 2>&1

# An emulated CPU beside others' work takes its time to start a program.
export FLEETPROF_SYMBOLS_REQUEST_DEADLINE=20s
CPU1=/sys/devices/system/cpu/cpu1/online
DAEMON=/tmp/agent

section() { # section NAME COMMAND…
  local name=$1
  shift
  echo "@begin $name"
  "$@"
  local status=$?
  echo # what the command printed may not end its last line
  echo "@end $status"
}

wait_for() { # wait_for COMMAND…: a minute or so at most
  local turns=300
  until "$@" >/dev/null 2>&1; do
    turns=$((turns - 1))
    [ $turns -gt 0 ] || return 1
    sleep 0.2
  done
}

# Snapshot of PID: its stacks and its summary, in sections of their own.
snapshot() { # snapshot NAME PID OPTION…
  local name=$1 pid=$2
  shift 2
  section "$name.summary" agentctl snapshot --standalone --pid "$pid" -o /tmp/stacks "$@"
  section "$name.stacks" cat /tmp/stacks
  rm -f /tmp/stacks
}

profile_programs() {
  local pid
  calltree_fp --seconds 900 >/dev/null &
  pid=$!
  sleep 1
  snapshot calltree $pid --cpu --duration 8s --format folded
  snapshot calltree_raw $pid --cpu --duration 4s --format folded --raw
  kill $pid
  sleeper --seconds 900 >/dev/null &
  pid=$!
  sleep 1
  snapshot sleeper $pid --off-cpu --duration 8s --format folded
  kill $pid
}

start_daemon() {
  mkdir -p $DAEMON/spool
  touch $DAEMON/conf
  chown -R fleetprof:fleetprof $DAEMON
  fleetprof-agent --config $DAEMON/conf --agent-listen= \
    --agent-control-socket=$DAEMON/socket --agent-lock-file=$DAEMON/lock \
    --agent-state-directory=$DAEMON --spool-directory=$DAEMON/spool \
    --spool-min-free=0B --spool-min-free-percent=0 >$DAEMON/log 2>&1 &
  daemon=$!
  wait_for agentctl status --socket $DAEMON/socket
}

# BPF programs that the daemon holds; more while it takes a snapshot.
programs_held() { grep -h prog_id /proc/"$daemon"/fdinfo/* | wc -l; }
holds_more_than() { [ "$(programs_held)" -gt "$1" ]; }

# Faster than anybody who looks once a second.
unplug_and_plug() {
  local turn
  for turn in 1 2 3 4 5; do
    echo 0 >$CPU1 || return 1
    echo 1 >$CPU1 || return 1
  done
  sleep 3
}

# A load that starts on CPU 1 after it left and came back, sampled by a snapshot that is older
# than that. Meanwhile the kernel's limit fell below the snapshot's rate, as it does by itself
# when sampling takes it too long.
hotplug() {
  local program snapshot held
  mkfifo /tmp/gate
  spin --gate --seconds 10 </tmp/gate >/tmp/truth &
  program=$!
  exec 9>/tmp/gate
  held=$(programs_held)
  agentctl snapshot --socket $DAEMON/socket --pid $program --cpu --duration 250s \
    --format folded -o /tmp/stacks >/tmp/summary 2>&1 &
  snapshot=$!
  section hotplug.attached wait_for holds_more_than "$held"
  sleep 2
  echo 50 >/proc/sys/kernel/perf_event_max_sample_rate
  section hotplug.toggle unplug_and_plug
  section hotplug.pin taskset -p 2 $program
  echo >&9
  wait_for grep -q cpu_ns /tmp/truth
  kill -INT $snapshot
  wait $snapshot
  section hotplug.snapshot echo $?
  exec 9>&-
  section hotplug.truth tail -n 1 /tmp/truth
  section hotplug.summary cat /tmp/summary
  section hotplug.stacks cat /tmp/stacks
  section hotplug.status agentctl status --json --socket $DAEMON/socket
}

section uname uname -r
section verifier bpf_verifier
section testrun bpf_testrun
section doctor agentctl doctor
profile_programs
section daemon.start start_daemon
section events kernels_events
hotplug
kill $daemon
wait $daemon
section daemon.status echo $?
section daemon.log cat $DAEMON/log
echo "@done"
sleep 1 # the port has to send it
reboot -f # after a suspend this machine cannot be switched off; a reset ends it as well
