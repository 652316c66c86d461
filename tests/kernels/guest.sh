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
export FLEETPROF_SYMBOLS_REQUEST_DEADLINE=20s FP_TEST_EMULATED=1
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
  snapshot calltree $pid --cpu --duration 4s --format folded
  snapshot calltree_raw $pid --cpu --duration 2s --format folded --raw
  kill $pid
}

start_daemon() { # start_daemon HOOK
  rm -rf $DAEMON
  mkdir -p $DAEMON/spool
  touch $DAEMON/conf
  chown -R fleetprof:fleetprof $DAEMON
  fleetprof-agent --config $DAEMON/conf --agent-listen= --off-cpu-hook="$1" \
    --agent-control-socket=$DAEMON/socket --agent-lock-file=$DAEMON/lock \
    --agent-state-directory=$DAEMON --spool-directory=$DAEMON/spool \
    --spool-min-free=0B --spool-min-free-percent=0 >$DAEMON/log 2>&1 &
  daemon=$!
  wait_for agentctl status --socket $DAEMON/socket
}

end_daemon() { # end_daemon NAME
  kill "$daemon"
  wait "$daemon"
  section "$1.status" echo $?
  section "$1.log" cat $DAEMON/log
}

# Lines about what the daemon holds, such as BPF programs; more while it takes a snapshot.
held() { grep -h "$1" /proc/"$daemon"/fdinfo/* | wc -l; }
holds_more_than() { [ "$(held "$2")" -gt "$1" ]; }

# Faster than anybody who looks once a second.
unplug_and_plug() {
  local turn
  for turn in 1 2 3 4 5; do
    echo 0 >$CPU1 || return 1
    echo 1 >$CPU1 || return 1
  done
  sleep 3
}

# A program at its gate, and a snapshot through the daemon that has attached to it.
attach() { # attach NAME 'OPTION…' PROGRAM OPTION…
  local name=$1 options=$2 sign=target_name before # of the iterator, which comes last
  shift 2
  [ "$options" != --cpu ] || sign=prog_id
  rm -f /tmp/gate /tmp/stacks* /tmp/summary
  mkfifo /tmp/gate
  "$@" --gate </tmp/gate >/tmp/truth &
  program=$!
  exec 9>/tmp/gate
  before=$(held $sign)
  # shellcheck disable=SC2086 # they are several
  agentctl snapshot --socket $DAEMON/socket --pid $program $options --duration 250s \
    --format folded -o /tmp/stacks >/tmp/summary 2>&1 &
  snapshot=$!
  section "$name.attached" wait_for holds_more_than "$before" $sign
}

# The program does its work; the snapshot ends after that, and the program last.
watch() { # watch NAME
  local name=$1 file
  echo >&9
  wait_for grep -q '"pid"' /tmp/truth
  kill -INT $snapshot
  wait $snapshot
  section "$name.snapshot" echo $?
  exec 9>&-
  section "$name.truth" tail -n 1 /tmp/truth
  section "$name.summary" cat /tmp/summary
  for file in /tmp/stacks*; do
    section "$name.${file#/tmp/}" cat "$file"
  done
}

# One thread that is blocked before the snapshot begins and after it ended.
blocked_throughout() { # blocked_throughout NAME
  local name=$1 program
  rm -f /tmp/gate /tmp/stacks*
  mkfifo /tmp/gate
  blocked </tmp/gate >/tmp/truth &
  program=$!
  exec 9>/tmp/gate
  echo block >&9
  wait_for grep -q '^blocked' /tmp/truth
  section "$name.before" cat /proc/uptime
  section "$name.summary" agentctl snapshot --socket $DAEMON/socket --pid $program --off-cpu \
    --duration 2s --format folded -o /tmp/stacks
  section "$name.after" cat /proc/uptime
  section "$name.stacks" cat /tmp/stacks
  exec 9>&-
  wait $program
}

# Waits in whose midst the machine sleeps for a while. The clock that goes on meanwhile is told
# before and after.
fall_asleep() {
  sleep 1
  cat /proc/uptime
  echo mem >/sys/power/state
  cat /proc/uptime
}

asleep() { # asleep NAME
  local name=$1 sleeping
  section "$name.before" cat /proc/uptime # the first thread waits for the snapshot to attach, too
  attach "$name" --off-cpu sleeper --seconds 4
  fall_asleep >/tmp/asleep 2>&1 &
  sleeping=$!
  watch "$name"
  section "$name.after" cat /proc/uptime
  wait $sleeping
  section "$name.suspend" cat /tmp/asleep
}

# Time off the CPU, by the hook that the daemon has.
by_hook() { # by_hook HOOK
  local hook=$1
  attach "$hook.sleeper" --off-cpu sleeper --migrate --seconds 3
  watch "$hook.sleeper"
  attach "$hook.parts" "--off-cpu --run-queue --wakers" sleeper --seconds 3
  watch "$hook.parts"
  attach "$hook.crowd" --run-queue spin --threads 4 --seconds 2
  watch "$hook.crowd"
  blocked_throughout "$hook.blocked"
}

# A load that starts on CPU 1 after it left and came back, sampled by a snapshot that is older
# than that. Meanwhile the kernel's limit fell below the snapshot's rate, as it does by itself
# when sampling takes it too long.
hotplug() {
  attach hotplug --cpu spin --seconds 6
  sleep 2
  echo 50 >/proc/sys/kernel/perf_event_max_sample_rate
  section hotplug.toggle unplug_and_plug
  section hotplug.pin taskset -p 2 "$program"
  watch hotplug
  section hotplug.status agentctl status --json --socket $DAEMON/socket
}

# What the balance test's load calls a compiler.
printf '#!/bin/sh\n' >/bin/gcc
chmod 755 /bin/gcc

programs() {
  section verifier bpf_verifier
  section testrun bpf_testrun
  section unwind bpf_unwind_kernel
  section unwind_file bpf_unwind_file
  section balance bpf_balance
  section doctor agentctl doctor
  profile_programs
  section daemon.start start_daemon auto
  section events kernels_events
  hotplug
  end_daemon daemon
}

off_cpu() {
  local hook
  section threshold bpf_threshold
  for hook in way_out fexit irq_work; do
    section $hook.start start_daemon $hook
    by_hook $hook
    [ $hook != irq_work ] || asleep $hook.asleep # the emulator does it once
    end_daemon $hook
  done
}

section uname uname -r
$FP_PART # from the kernel's command line
echo "@done"
sleep 1 # the port has to send it
reboot -f # after a suspend this machine cannot be switched off; a reset ends it as well
