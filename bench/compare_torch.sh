#!/usr/bin/env bash
# Our CPU training step beside PyTorch's, alternating in one run, as median ratios.
#
#   bench/compare_torch.sh PEERS_DIR [ROUNDS]
#
# PEERS_DIR holds run_torch.sh (plain PyTorch training step of the same shapes; its "tuned" setting:
# OpenMP OpenBLAS, glibc that keeps large blocks, huge pages). Needs python3-torch and
# libopenblas0-openmp. Prints one line per round and the median ratio per shape.
set -euo pipefail
peers=$(cd "${1:?usage: bench/compare_torch.sh PEERS_DIR [ROUNDS]}" && pwd)
rounds=${2:-3}
cd "$(dirname "$0")/.."
tessera=build/bin/tessera
[ -x "$tessera" ] || { echo "compare_torch.sh: build first: ./test or ./demo"; exit 2; }
field() { python3 -c 'import json,sys; print(json.loads(sys.stdin.read())[sys.argv[1]])' "$1"; }
for shape in A B; do
  ratios=()
  for round in $(seq "$rounds"); do
    torch=$("$peers/run_torch.sh" "$shape" tuned 1 2 --steps 8 2>/dev/null | grep '^{' | field tokens_s)
    ours=$("$tessera" bench step "bench/cpu/${shape,}.toml" --steps 8 --warmup 2 --json | field tokens_per_s)
    ratio=$(python3 -c "print(f'{$ours / $torch:.3f}')")
    ratios+=("$ratio")
    printf 'shape %s round %s: torch %.0f tokens/s, tessera %.0f tokens/s, ratio %s\n' \
      "$shape" "$round" "$torch" "$ours" "$ratio"
  done
  printf '%s\n' "${ratios[@]}" | python3 -c "
import statistics, sys
r = [float(x) for x in sys.stdin]
print(f'shape $shape: median ratio {statistics.median(r):.2f} ({min(r):.2f}-{max(r):.2f})')"
done
