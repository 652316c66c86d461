#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The one command that tests everything: installs what is missing from Debian, builds, and
# runs every test through ctest. The last line printed is ctest's summary; the exit code is
# 0 only if every test passed and none was skipped that expected-skips.txt does not list.
#
#   release build   unit tests, live tests on this kernel (root), checks of the tree
#   dev build       unit tests under address and undefined-behaviour sanitizers
#   fuzz build      a short run of every fuzz target
set -euo pipefail
exec </dev/null
export LC_ALL=C.UTF-8 PATH="$PATH:/usr/sbin:/sbin"

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")
BUILD=${FP_BUILD_ROOT:-$ROOT/build}
readonly HERE ROOT BUILD
readonly TEST_TIMEOUT_S=600 # of a test that sets none itself
mode=default
install=yes
declare -a ctest_arguments=()

usage() {
  cat <<USAGE
Usage: sudo tests/run.sh [--quick|--full] [--no-install] [-- CTEST-ARGUMENT...]

  --quick       only the user-space unit tests, under sanitizers; needs no root
  --full        long soaks and fuzz runs (FP_TEST_FULL=1)
  --no-install  do not install missing Debian packages
  --            what follows is passed to ctest, for example: -- -R common_

FP_BUILD_ROOT (default: build/) is where the builds are made and kept.
USAGE
}

fail() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 1
}

step() { printf '\n==> %s\n' "$*"; }

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --quick) mode=quick ;;
      --full) mode=full ;;
      --no-install) install=no ;;
      -h | --help) usage; exit 0 ;;
      --) shift; ctest_arguments=("$@"); return ;;
      *) usage >&2; exit 2 ;;
    esac
    shift
  done
}

packages() {
  cat "$ROOT/deploy/packages-build.txt" "$ROOT/deploy/packages-run.txt" "$HERE/packages.txt" |
    sed 's/#.*//' | xargs -n1 | sort -u
}

install_packages() {
  local missing=()
  local package
  while read -r package; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
      missing+=("$package")
  done < <(packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  step "Installing ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || fail "packages are missing, run as root or install: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null || echo "run.sh: 'apt-get update' failed, trying what is known"
  apt-get install -y -q --no-install-recommends "${missing[@]}" >"$BUILD/apt.log" 2>&1 || {
    tail -n 20 "$BUILD/apt.log" >&2
    fail "apt-get could not install: ${missing[*]}"
  }
}

build() {
  local preset=$1
  step "Building $preset"
  (cd "$ROOT" && cmake --preset "$preset" -B "$BUILD/$preset" >"$BUILD/$preset.log" 2>&1 &&
    cmake --build "$BUILD/$preset" -- -j "$(nproc)" >>"$BUILD/$preset.log" 2>&1) || {
    grep -E -A 20 'error|Error|FAILED' "$BUILD/$preset.log" | head -n 100 >&2
    fail "the $preset build failed; all of it is in '$BUILD/$preset.log'"
  }
  tail -n 1 "$BUILD/$preset.log"
}

# One test tree over the builds, so that ctest runs and counts them together. A test tree is
# a file that names directories with test trees.
compose() {
  local tree=$BUILD/tests
  mkdir -p "$tree"
  {
    [ "$mode" = quick ] || printf 'subdirs("%s")\n' "$BUILD/release" "$BUILD/fuzz/tests/fuzz"
    # From the sanitizer builds user space alone: they have nothing new to say about the kernel.
    local directory
    for directory in "$BUILD"/dev/tests/unit/*/ "$BUILD"/dev/tests/fuzz/; do
      [ ! -f "$directory/CTestTestfile.cmake" ] || printf 'subdirs("%s")\n' "${directory%/}"
    done
  } >"$tree/CTestTestfile.cmake"
}

# Names of the skipped tests in ctest's output.
skipped_tests() {
  sed -n 's/^[ \t]*[0-9][0-9]* - \([^ ]*\) (Skipped).*/\1/p' "$1" | sort -u
}

expected_skips() {
  sed -e 's/#.*//' -e 's/[ \t]*$//' -e '/^$/d' "$HERE/expected-skips.txt" | sort -u
}

# Prints the summary line last. Unexpected skips count as failures in it.
conclude() {
  local log=$1 status=$2 unexpected summary failed total
  summary=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$log" | tail -n 1)
  [ -n "$summary" ] || fail "ctest gave no summary"
  unexpected=$(comm -23 <(skipped_tests "$log") <(expected_skips))
  if [ -n "$unexpected" ]; then
    printf '\nSkipped, but not listed in tests/expected-skips.txt:\n'
    sed 's/^/  /' <<<"$unexpected"
    failed=$(sed -E 's/.*, ([0-9]+) tests failed.*/\1/' <<<"$summary")
    total=$(sed -E 's/.* out of ([0-9]+).*/\1/' <<<"$summary")
    failed=$((failed + $(wc -l <<<"$unexpected")))
    summary="$(((total - failed) * 100 / total))% tests passed, $failed tests failed out of $total"
    status=1
  fi
  printf '\n%s\n' "$summary"
  exit "$status"
}

run_tests() {
  local log=$BUILD/ctest.log status=0
  step "Testing"
  [ "$mode" != full ] || export FP_TEST_FULL=1
  ctest --test-dir "$BUILD/tests" --output-on-failure --no-tests=error -j "$(nproc)" \
    --timeout "$TEST_TIMEOUT_S" ${ctest_arguments[@]+"${ctest_arguments[@]}"} 2>&1 |
    tee "$log" || status=$?
  conclude "$log" "$status"
}

parse_arguments "$@"
[ "$mode" = quick ] || [ "$(id -u)" -eq 0 ] ||
  fail "live tests need root (bpf and perf events); --quick runs the others"
mkdir -p "$BUILD"
[ "$install" = no ] || install_packages
if [ "$mode" = quick ]; then
  build dev
else
  build release
  build dev
  build fuzz
fi
compose
run_tests
