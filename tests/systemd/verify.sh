#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# verify.sh BINARY_DIR: the units as installed are without a complaint from systemd-analyze,
# keep their exposure level, leave out what blinds a profiler, and the configuration files
# beside them show the real defaults.
set -uo pipefail

BINARY_DIR=$1
failures=0
checks=0

check() { # check SENTENCE COMMAND…
  local sentence=$1 output
  shift
  checks=$((checks + 1))
  if output=$("$@" 2>&1); then
    echo "ok: $sentence"
  else
    echo "FAILED: $sentence"
    printf '%s\n' "$output" | tail -n 20
    failures=$((failures + 1))
  fi
}

command -v systemd-analyze >/dev/null || {
  echo "skipped: systemd-analyze is not installed"
  exit 77
}

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
root=$work/root
DESTDIR=$root cmake --install "$BINARY_DIR" >"$work/install.log" 2>&1 || {
  tail -n 20 "$work/install.log"
  echo "FAILED: cmake --install"
  exit 1
}

agent_unit=$(find "$root" -name fleetprof-agent.service)
collector_unit=$(find "$root" -name fleetprof-collector.service)

silent() { # the command succeeds and prints nothing
  local output
  if ! output=$("$@" 2>&1) || [ -n "$output" ]; then
    echo "$output"
    return 1
  fi
}

# The programs are looked for where they will be, so the paths are pointed at the copies.
verify_unit() {
  local copy
  mkdir -p "$work/verify"
  copy=$work/verify/$(basename "$1")
  sed "s#^\(Exec[A-Za-z]*=\)/\(.*fleetprof-\)#\1$root/\2#" "$1" >"$copy"
  silent systemd-analyze verify --man=no "$copy"
}
exposure() { systemd-analyze security --offline=yes --threshold="$1" "$2"; }
has_not() { ! grep -nE "^$1=" "$2"; }
settings_of() { # the defaults a commented file shows, as section.key=value, sorted
  sed -E 's/^#([a-z_]+ =)/\1/' "$1" | awk -F' = ?' '
    /^\[/ { section = substr($0, 2, length($0) - 2) }
    /^[a-z_]+ =/ { printf "%s.%s=%s\n", section, $1, $2 }' | sort
}
dump_of() {
  "$1" --config=/dev/null --dump-config | sed 's/[[:space:]]*;.*//' | awk -F' = ?' '
    /^\[/ { section = substr($0, 2, length($0) - 2) }
    /^[a-z_]+ =/ { printf "%s.%s=%s\n", section, $1, $2 }' | sort
}
shows_defaults() { # PROGRAM FILE
  local shown missing
  shown=$(settings_of "$2")
  [ -n "$shown" ] || { echo "no setting in $2"; return 1; }
  missing=$(comm -23 <(echo "$shown") <(dump_of "$1"))
  [ -z "$missing" ] || { echo "not the default: $missing"; return 1; }
}
sysusers_valid() { systemd-sysusers --root="$root" "$(find "$root" -path '*sysusers.d/*')"; }
accepts() { "$1" "--config=$2" --check-config; }

check "the agent's unit is valid" verify_unit "$agent_unit"
check "the collector's unit is valid" verify_unit "$collector_unit"
check "the agent's exposure stays at 3.5 or below" exposure 35 "$agent_unit"
check "the collector's exposure stays at 1.6 or below" exposure 16 "$collector_unit"
for option in ProtectKernelTunables ProtectKernelLogs ProcSubset PrivateUsers PrivatePIDs \
  ProtectKernelModules PrivateNetwork; do
  check "the agent's unit does not set $option, which would blind it" \
    has_not "$option" "$agent_unit"
done
check "the accounts are valid" sysusers_valid
for name in agent collector; do
  program=$BINARY_DIR/$name/fleetprof-$name
  check "the $name accepts its default configuration file" \
    accepts "$program" "$root/etc/fleetprof/$name.conf"
  check "the $name's configuration file shows the real defaults" \
    shows_defaults "$program" "$root/etc/fleetprof/$name.conf"
done

echo "$((checks - failures)) passed, $failures failed"
[ "$failures" -eq 0 ]
