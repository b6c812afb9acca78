#!/usr/bin/env bash
# Runs the tests on the GPU under compute-sanitizer. Ends with one line per program and tool, and
# with exit code 1 where a tool found something.
set -uo pipefail

usage() {
  cat <<'TEXT'
Example: tools/gpu_sanitize.sh build memcheck

Runs the tests on the GPU under compute-sanitizer: memcheck over the kernels, the collectives of
ranks on one GPU and whole steps; racecheck over kernels of ours that use shared memory.

Usage: tools/gpu_sanitize.sh [BUILD] [memcheck|racecheck|all]
  BUILD   folder of the build (default: build)
  SANITIZE_LIMIT_S (environment): seconds for each program and tool (default: 900)
  SANITIZE_LOGS    (environment): folder for what the tools print (default: BUILD/sanitize)
TEXT
}

[[ ${1:-} == -h || ${1:-} == --help ]] && { usage; exit 0; }
build=${1:-build}
tools=${2:-all}
limit=${SANITIZE_LIMIT_S:-900}
logs=${SANITIZE_LOGS:-$build/sanitize}
case $tools in
  memcheck | racecheck) ;;
  all) tools="memcheck racecheck" ;;
  *) usage >&2; exit 2 ;;
esac

sanitizer=$(command -v compute-sanitizer || true)
for place in "${CUDA_HOME:-/usr/local/cuda}"/bin /usr/local/cuda/compute-sanitizer; do
  [[ -z $sanitizer && -x $place/compute-sanitizer ]] && sanitizer=$place/compute-sanitizer
done
if [[ -z $sanitizer ]]; then
  echo "gpu_sanitize: error: compute-sanitizer was not found: install it (it is part of the CUDA" \
    "toolkit), or put its folder into PATH" >&2
  exit 2
fi
mkdir -p "$logs"

# Kernels of libraries are not ours to check, and there are thousands. The option's name changed.
only_ours=()
for option in --kernel-name --filter; do
  if "$sanitizer" --help 2>/dev/null | grep -q -- "$option "; then
    only_ours=("$option" "kernel_substring=tessera")
    break
  fi
done

# Benches time themselves, cuDNN's kernels are its own, choices of products need no GPU.
kernels_memcheck='Cuda*-CudaCudnn*:CudaLibraries*:CudaMatmul*'
# Kernels whose threads share memory. The others cannot race there.
kernels_racecheck='CudaNorm*:CudaCrossEntropy*:CudaDropout*:CudaSumSquares*:CudaMetrics*'
kernels_racecheck+=':CudaAdamW*:CudaBias*:CudaLayerNorm*:CudaHeadNorm*:CudaEmbedding*'
experts_racecheck='CudaExperts*:CudaRouter*:CudaMoeRows*:CudaBalance*'
# The CPU side of the other tests takes most of their time, and a fault is reported as one.
steps='CudaTest.AStepRepeatsBitForBit:CudaTest.AGraph*'

check() {  # tool program filter [name]
  local tool=$1 program=$2 filter=$3 log=$logs/$1-${4:-$2}.log code=0
  if [[ ! -x $build/bin/$program ]]; then
    echo "$tool $program: not built"
    return 1
  fi
  local options=(--tool "$tool" --error-exitcode 99 --print-limit 50 "${only_ours[@]}")
  [[ $tool == memcheck ]] && options+=(--leak-check no)
  timeout "$limit" "$sanitizer" "${options[@]}" \
    "$build/bin/$program" --gtest_filter="$filter" >"$log" 2>&1 || code=$?
  local found
  found=$(grep -E "(ERROR|RACECHECK) SUMMARY" "$log" | tail -1)
  case $code in
    0) echo "$tool ${4:-$program}: clean (${found#========= })" ;;
    124) echo "$tool ${4:-$program}: not finished within $limit s, see $log" ;;
    *) echo "$tool ${4:-$program}: exit code $code, ${found#========= }, see $log" ;;
  esac
  [[ $code == 0 ]]
}

# Programs of one tool run side by side: they wait for the host most of the time.
failed=0
for tool in $tools; do
  checks=()
  if [[ $tool == memcheck ]]; then
    check memcheck kernels_test "$kernels_memcheck" & checks+=($!)
    check memcheck comm_test 'CudaCollectives*:OneGpu*' & checks+=($!)
    check memcheck cuda_test "$steps" & checks+=($!)
  else
    check racecheck kernels_test "$kernels_racecheck" & checks+=($!)
    check racecheck kernels_test "$experts_racecheck" experts & checks+=($!)
    # Under racecheck a long sequence takes minutes.
    TESSERA_SHORT_TESTS=1 check racecheck kernels_test 'CudaAttention.*' attention & checks+=($!)
  fi
  for one in "${checks[@]}"; do wait "$one" || failed=1; done
done
exit $failed
