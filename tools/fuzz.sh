#!/usr/bin/env bash
# Feeds the parsers of checkpoints and of the ports of a run with bytes that libFuzzer makes up, under
# AddressSanitizer and UndefinedBehaviorSanitizer: the programs of tests/fuzz, one after the other.
# Usage: tools/fuzz.sh [--if-all] [SECONDS] [NAME ...]
#   SECONDS  for each program (60)
#   NAME     of the programs, such as manifest (all)
# Builds into build/fuzz (FUZZ_BUILD for another folder) with clang++; what was found interesting stays there
# and is begun with the next time. Exits with 77, which CTest calls skipped, where there is no clang++ with
# libFuzzer, and with 1 where a program was ended: the bytes are in build/fuzz/found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --if-all ]]; then
  shift
  if [[ -z ${TESSERA_TEST_ALL:-} ]]; then
    echo "fuzz: skipped, it builds with clang++ and takes minutes; ./test --all runs it"
    exit 77
  fi
fi
seconds=${1:-60}
shift || true
build=${FUZZ_BUILD:-build/fuzz}
mkdir -p "$build"

has_fuzzer() { # COMPILER
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$1" -x c++ -fsanitize=fuzzer,address,undefined -o "$build/probe" - 2>"$build/probe.log"
}
clang=
for candidate in "${CXX:-}" clang++ clang++-{19,18,17,16,15,14}; do
  if [[ $candidate == *clang* ]] && command -v "$candidate" >/dev/null && has_fuzzer "$candidate"; then
    clang=$candidate
    break
  fi
done
if [[ -z $clang ]]; then
  echo "fuzz: no clang++ with libFuzzer here (Debian: apt-get install clang-14 libclang-rt-14-dev); skipped"
  exit 77
fi

if ! {
  cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DTESSERA_FUZZ=ON -DTESSERA_SANITIZE=address \
    -DTESSERA_TESTS=OFF -DTESSERA_BENCH=OFF -DTESSERA_EXAMPLES=OFF -DTESSERA_MPI=off -DTESSERA_CUDA=off \
    -DTESSERA_UNITY=ON && ninja -C "$build" ${FUZZ_JOBS:+-j "$FUZZ_JOBS"} fuzz_targets
} >"$build/build.log" 2>&1; then
  tail -n 30 "$build/build.log" >&2
  exit 1
fi

names=("$@")
if ((${#names[@]} == 0)); then
  for source in tests/fuzz/*_fuzz.cc; do
    name=${source##*/}
    names+=("${name%_fuzz.cc}")
  done
fi
failed=0
for name in "${names[@]}"; do
  mkdir -p "$build/corpus/$name" "$build/found"
  log=$build/$name.log
  if "$build/bin/${name}_fuzz" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=1024 \
    -print_final_stats=1 -artifact_prefix="$build/found/$name-" "$build/corpus/$name" "tests/fuzz/corpus/$name" \
    >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$name: $runs inputs in $seconds s, nothing found"
  else
    echo "$name: ENDED; the bytes are in $build/found, the report in $log" >&2
    tail -n 40 "$log" >&2
    failed=1
  fi
done
exit "$failed"
