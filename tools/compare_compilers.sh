#!/usr/bin/env bash
# Builds Tessera with clang++ and compares what it says with what the build of g++ says, byte by
# byte: to random requests, and to a few large ones. Exits with 77, which CTest calls skipped, where
# there is no clang++. It builds everything once more (twice without GCC_BIN), so CTest runs it with
# `./test --all` only.
# Usage: tools/compare_compilers.sh [--if-all] [BUILD_FOLDER] [REQUESTS] [GCC_BIN]
#   BUILD_FOLDER  where to build (build/compilers)
#   REQUESTS      how many random requests (5000)
#   GCC_BIN       folder with the programs `requests` and `tessera` that g++ built; else built here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --if-all ]]; then
  shift
  if [[ -z ${TESSERA_TEST_ALL:-} ]]; then
    echo "compare_compilers: skipped, it takes minutes; ./test --all runs it"
    exit 77
  fi
fi
folder=${1:-build/compilers}
requests=${2:-5000}
gcc_bin=${3:-}

clang=$(command -v clang++-14 || command -v clang++ || true)
if [[ -z $clang ]]; then
  echo "compare_compilers: no clang++ here (Debian: apt-get install clang-14); skipped"
  exit 77
fi

# Prints the folder of the programs.
build() {
  local name=$1 compiler=$2
  if ! {
    cmake -S . -B "$folder/$name" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DTESSERA_MPI=off \
      -DTESSERA_CUDA=off -DTESSERA_UNITY=ON && ninja -C "$folder/$name" requests tessera
  } >"$folder/$name.log" 2>&1; then
    tail -n 30 "$folder/$name.log" >&2
    exit 1
  fi
  echo "$folder/$name/bin"
}

large_requests=(
  "presets models" "presets devices --json" "presets clusters"
  "explain bubble --schedule zb-v" "explain memory --model llama-3-70b --json"
  "plan --model llama-3-405b --cluster h100-16384 --tp 8 --pp 16 --zero 1 --json"
  "plan --model deepseek-v3 --cluster h100-2048 --tp 1 --pp 16 --ep 8 --fsdp 8 --check"
  "simulate examples/pipeline.toml --cluster two-pcs --slow rank=1,factor=1.3 --json"
  "search --model llama-3-405b --cluster h100-16384 --global-batch 2048 --seq-len 8192 --json"
  "search --model mixtral-8x7b --cluster h100-64 --global-batch 512 --seq-len 4096 --pareto"
  "bench published tests/data/published/extract.json --entries --json"
)

# answers BIN FILE
answers() {
  "$1/requests" "$requests" >"$2"
  for request in "${large_requests[@]}"; do
    # Not fitting is an answer too.
    # shellcheck disable=SC2086  # the words of a request
    "$1/tessera" $request >>"$2" 2>&1 || [[ $? -eq 2 || $? -eq 3 ]]
  done
}

mkdir -p "$folder"
if [[ -z $gcc_bin ]]; then gcc_bin=$(build gcc "$(command -v g++)"); fi
clang_bin=$(build clang "$clang")
answers "$gcc_bin" "$folder/gcc.txt"
answers "$clang_bin" "$folder/clang.txt"
if ! cmp "$folder/gcc.txt" "$folder/clang.txt"; then
  diff -a "$folder/gcc.txt" "$folder/clang.txt" | cut -c 1-200 | head -20
  exit 1
fi
echo "compare_compilers: $requests random and ${#large_requests[@]} large requests," \
  "$(wc -c <"$folder/gcc.txt") bytes, the same from g++ and $clang"
