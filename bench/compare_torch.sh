#!/usr/bin/env bash
# Our CPU training step beside PyTorch's, alternating in one run, as median ratios.
#
#   bench/compare_torch.sh PEERS_DIR [ROUNDS] [SHAPES] [LEVEL]
#
# PEERS_DIR holds run_torch.sh (plain PyTorch training step of the same shapes; its "tuned" setting:
# OpenMP OpenBLAS, glibc that keeps large blocks, huge pages), and quiet.py, which runs a command at
# the highest priority once the machine is idle: both sides go through it. Needs python3-torch and
# libopenblas0-openmp. SHAPES are some of A to F (A B C); D to F were tuned for by nobody: a width that is no
# power of two, long sequences, few tokens. LEVEL is "best" (the CPU's own on both sides; it
# names the AVX-512 kernels to OpenBLAS, which does not know newer CPUs) or "v3": AVX2 on both sides. Prints
# one line per round and the median ratio per shape.
set -euo pipefail
peers=$(cd "${1:?usage: bench/compare_torch.sh PEERS_DIR [ROUNDS] [SHAPES] [LEVEL]}" && pwd)
rounds=${2:-3}
shapes=${3:-A B C}
level=${4:-best}
cd "$(dirname "$0")/.."
tessera=build/bin/tessera
[ -x "$tessera" ] || { echo "compare_torch.sh: build first: ./test or ./demo"; exit 2; }
case $level in
  best)
    core=()
    if grep -qw avx512f /proc/cpuinfo; then core=(OPENBLAS_CORETYPE=SkylakeX); fi
    ours_at=()
    ;;
  v3) core=(OPENBLAS_CORETYPE=Haswell) ours_at=(TESSERA_CPU_LEVEL=v3) ;;
  *) echo "compare_torch.sh: LEVEL is '$level': use best or v3" >&2; exit 2 ;;
esac
field() { python3 -c 'import json,sys; print(json.loads(sys.stdin.read())[sys.argv[1]])' "$1"; }
for shape in $shapes; do
  steps=8 torch_shape=()
  case $shape in
    C) steps=4 ;;
    D) torch_shape=(--layers 6 --hidden 320 --ffn 864 --heads 5 --kv-heads 5 --vocab 10000 --seq 200 --batch 6) ;;
    E) torch_shape=(--layers 4 --hidden 256 --ffn 768 --heads 4 --kv-heads 2 --vocab 8192 --seq 2048 --batch 1) ;;
    F) torch_shape=(--layers 8 --hidden 512 --ffn 1408 --heads 8 --kv-heads 4 --vocab 16384 --seq 64 --batch 1) steps=30 ;;
  esac
  ratios=()
  for round in $(seq "$rounds"); do
    torch=$(env "${core[@]}" "$peers/run_torch.sh" "$shape" tuned 1 2 "${torch_shape[@]}" --steps "$steps" 2>/dev/null | grep '^{' | field tokens_s)
    ours=$(python3 "$peers/quiet.py" -- env "${ours_at[@]}" "$tessera" bench step "bench/cpu/${shape,}.toml" --steps "$steps" --warmup 2 --json 2>/dev/null | field tokens_per_s)
    ratio=$(python3 -c "print(f'{$ours / $torch:.3f}')")
    ratios+=("$ratio")
    printf 'shape %s level %s round %s: torch %.0f tokens/s, tessera %.0f tokens/s, ratio %s\n' \
      "$shape" "$level" "$round" "$torch" "$ours" "$ratio"
  done
  printf '%s\n' "${ratios[@]}" | python3 -c "
import statistics, sys
r = [float(x) for x in sys.stdin]
print(f'shape $shape level $level: median ratio {statistics.median(r):.2f} ({min(r):.2f}-{max(r):.2f})')"
done
