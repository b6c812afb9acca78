#!/usr/bin/env bash
# What tools/build.sh says while it builds, and what it asks of cmake for ./demo and ./test.
# Usage: check_build.sh FOLDER    FOLDER is for files that nobody keeps
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
folder=$1
rm -rf "$folder"
mkdir -p "$folder/bin"
source "$root/tools/build.sh"
build_jobs() { echo 2; }

failures=0
expect() {
  local what=$1 wanted=$2 got=$3
  if [[ $got != "$wanted" ]]; then
    printf '%s\n  expected: %s\n  got:      %s\n' "$what" "$wanted" "$got" >&2
    failures=$((failures + 1))
  fi
}

log=$folder/log
: >"$log"
expect "nothing yet" "3 s" "$(progress "$log" 3)"
printf '[1/86] a\n[2/86] b\n' >"$log"
expect "the usual time at first" "2 of 86, 2%, 4 s; about 2 min 48 s left" "$(progress "$log" 4)"
printf '[42/86] a\n/a.cc:1: warning: [1/2]\n[43/86] b\n' >"$log"
expect "the time of this machine" "43 of 86, 50%, 10 min 00 s; about 8 min 23 s left" "$(progress "$log" 600)"

# A stand-in for cmake that says what it was asked.
printf '#!/bin/sh\necho "$@"\n' >"$folder/bin/cmake"
chmod +x "$folder/bin/cmake"
PATH=$folder/bin:$PATH
asked() { configure "$@" | tr ' ' '\n' | grep -E '^-DTESSERA' | tr '\n' ' '; }
off="-DTESSERA_TESTS=OFF -DTESSERA_BENCH=OFF -DTESSERA_EXAMPLES=OFF "
on="-DTESSERA_TESTS=ON -DTESSERA_BENCH=ON -DTESSERA_EXAMPLES=ON "
mkdir -p "$folder/build"
expect "a program in a new folder" "-DTESSERA_UNITY=ON $off" "$(asked "$folder/build" tessera)"
expect "all in a new folder" "-DTESSERA_UNITY=ON $off$on" "$(asked "$folder/build" all)"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$root" >"$folder/build/CMakeCache.txt"
expect "a program in a folder in use" "" "$(asked "$folder/build" tessera || true)"
expect "all in a folder in use" "$on" "$(asked "$folder/build" all)"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere" >"$folder/build/CMakeCache.txt"
expect "a folder of another checkout" "-DTESSERA_UNITY=ON $off" "$(asked "$folder/build" tessera)"
exit $((failures > 0))
