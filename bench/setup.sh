#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the profilers that compare.py and unwindcompare.py measure beside ours. They install
# nothing themselves and say which peers they could not run. libc6-dbg names the C library's
# functions in which threads begin. The kernel headers are for BCC alone, which
# compiles its programs at start: any Debian kernel's will do (compare.py lays them out).
set -eu

if [ "$(id -u)" -ne 0 ]; then
	echo "setup.sh: installing packages needs root; run: sudo $0" >&2
	exit 5
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install -y --no-install-recommends \
	bpfcc-tools python3-bpfcc bpftrace libbpf-tools bpftool linux-headers-amd64 linux-perf \
	libc6-dbg gcc
