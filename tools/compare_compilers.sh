#!/usr/bin/env bash
# Builds the planner's core with g++ and with clang++ and compares their answers to random requests,
# byte by byte. Exits with 77, which CTest calls skipped, where there is no clang++. It builds the
# core twice, so CTest runs it with `./test --all` only.
# Usage: tools/compare_compilers.sh [--if-all] [BUILD_FOLDER] [REQUESTS]
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

clang=$(command -v clang++-14 || command -v clang++ || true)
if [[ -z $clang ]]; then
  echo "compare_compilers: no clang++ here (Debian: apt-get install clang-14); skipped"
  exit 77
fi

launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi

answers() {
  local name=$1 compiler=$2
  cmake -S . -B "$folder/$name" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DTESSERA_MPI=off \
    -DTESSERA_CUDA=off "${launcher[@]}" >"$folder/$name.log"
  ninja -C "$folder/$name" answers >>"$folder/$name.log"
  "$folder/$name/bin/answers" "$requests" >"$folder/$name.txt"
}
mkdir -p "$folder"
answers gcc "$(command -v g++)"
answers clang "$clang"
if ! cmp "$folder/gcc.txt" "$folder/clang.txt"; then
  diff "$folder/gcc.txt" "$folder/clang.txt" | cut -c 1-200 | head -20
  exit 1
fi
echo "compare_compilers: $requests answers, $(wc -c <"$folder/gcc.txt") bytes, the same from g++ and $clang"
