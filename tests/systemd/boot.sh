#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# boot.sh BINARY_DIR: installs into a Debian 12 tree, boots its systemd in a container, and
# lets boot_checks.sh inside look at how both units really run: accounts, capabilities,
# readiness, watchdog, reload, crash, stop, and that a batch gets from one to the other.
# The container has its own pid namespace, so host processes have no names there; whole
# profiles are the business of tests/e2e.
set -uo pipefail

BINARY_DIR=$1
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly BOOT_LIMIT_S=280
# The six of the unit, and what systemd itself needs to start services.
readonly CAPABILITIES=CAP_BPF,CAP_PERFMON,CAP_SYSLOG,CAP_CHECKPOINT_RESTORE,CAP_SYS_PTRACE

skip() {
  echo "skipped: $*"
  exit 77
}

[ "$(id -u)" -eq 0 ] || skip "needs root to boot a container"
command -v systemd-nspawn >/dev/null || skip "systemd-nspawn is not installed"
[ -r /sys/kernel/btf/vmlinux ] || skip "this kernel has no BTF"
[ -d /sys/fs/cgroup/systemd ] || [ -e /sys/fs/cgroup/cgroup.controllers ] ||
  skip "no control group tree that a systemd could use is mounted"

base=$("$HERE/base_tree.sh") || exit $?
work=$(mktemp -d /var/tmp/fleetprof-boot.XXXXXX)
machine=fleetprof-boot-$$
cleanup() {
  mountpoint -q "$work/root" && umount "$work/root"
  rm -rf -- "$work" "/run/systemd/nspawn/propagate/$machine"
}
trap cleanup EXIT
mkdir "$work/root" "$work/upper" "$work/lower" "$work/results"
mount -t overlay overlay "$work/root" \
  -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/lower" || skip "no overlay file system"
root=$work/root

DESTDIR=$root cmake --install "$BINARY_DIR" >"$work/install.log" 2>&1 || {
  tail -n 20 "$work/install.log"
  echo "FAILED: cmake --install"
  exit 1
}
install -m 0755 "$HERE/boot_checks.sh" "$root/boot_checks.sh"
mkdir -p "$root/etc/fleetprof/agent.conf.d" "$root/etc/systemd/system/fleetprof-agent.service.d"
cat >"$root/etc/fleetprof/agent.conf.d/boot.conf" <<'CONFIG'
[cpu]
hz = 99
[window]
length = 2s
jitter_percent = 0
drain_interval = 1s
[collector]
url = http://127.0.0.1:7171
retry_max = 2s
[spool]
min_free_percent = 0
min_free = 0B
CONFIG
# Shorter waits for what the checks provoke.
cat >"$root/etc/systemd/system/fleetprof-agent.service.d/boot.conf" <<'CONFIG'
[Service]
WatchdogSec=4
RestartSec=1
CONFIG
cat >"$root/etc/systemd/system/boot-checks.service" <<'CONFIG'
[Unit]
Description=checks of tests/systemd/boot.sh
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/boot_checks.sh /results
ExecStopPost=/bin/systemctl --no-block exit 0
[Install]
WantedBy=default.target
CONFIG
systemctl --root="$root" enable fleetprof-agent.service fleetprof-collector.service \
  boot-checks.service >/dev/null 2>&1 || {
  echo "FAILED: the units cannot be enabled"
  exit 1
}

timeout --kill-after=10 "$BOOT_LIMIT_S" systemd-nspawn --quiet --directory="$root" \
  --machine="$machine" --boot --private-network --register=no --keep-unit --link-journal=no \
  --console=read-only --bind="$work/results:/results" --capability="$CAPABILITIES" \
  --system-call-filter='bpf perf_event_open' </dev/null >"$work/console.log" 2>&1
status=$?

if [ ! -e "$work/results/done" ]; then
  tail -n 40 "$work/console.log"
  [ ! -e "$work/results/log" ] || cat "$work/results/log"
  echo "FAILED: the checks did not finish (systemd-nspawn: exit code $status)"
  exit 1
fi
cat "$work/results/log"
exit "$(cat "$work/results/done")"
