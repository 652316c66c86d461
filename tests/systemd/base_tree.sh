#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# base_tree.sh: prints the path of a Debian 12 root file system with systemd and what the
# programs need at run time, made by debootstrap the first time and kept in
# ${FP_TEST_CACHE:-/var/cache/fleetprof-tests}. Exit code 77 and a reason when it cannot be had.
set -euo pipefail

SOURCE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CACHE=${FP_TEST_CACHE:-/var/cache/fleetprof-tests}

skip() {
  echo "skipped: $*" >&2
  exit 77
}

[ "$(id -u)" -eq 0 ] || skip "needs root to make a root file system"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"

packages=systemd,systemd-sysv,dbus,curl,procps,$(grep -v '^#' \
  "$SOURCE_DIR/deploy/packages-run.txt" | paste -sd,)
key=$(printf '%s' "$packages" | sha256sum | cut -c1-12)
tree=$CACHE/bookworm-$key

mkdir -p "$CACHE"
exec 9>"$CACHE/lock"
flock 9 # two tests want it at once: one makes it, the other waits
if [ ! -e "$tree/.complete" ]; then
  rm -rf -- "$CACHE"/bookworm-* # of other package lists too
  if ! debootstrap --variant=minbase --include="$packages" bookworm "$tree" \
    >"$tree.log" 2>&1 9>&-; then
    tail -n 5 "$tree.log" >&2
    rm -rf -- "$tree"
    skip "debootstrap could not fetch Debian 12 (its last lines are above)"
  fi
  rm -rf "$tree"/var/cache/apt/archives/*.deb
  touch "$tree/.complete"
fi
echo "$tree"
