#!/usr/bin/env bash
# Our collectives beside OpenMPI and Gloo on this machine, alternating in one run, as tables of
# ratios in markdown on standard output; progress goes to standard error.
#
#   bench/compare_collectives.sh PEERS_DIR [ROUNDS]
#
# PEERS_DIR holds run.sh, which builds and runs the benchmarks of other libraries and ours (through
# OWN) with one method, and knows this machine's limits. Needs openmpi-bin libopenmpi-dev mpich
# libmpich-dev libgloo-dev. A round measures every op with 2 and with 4 processes: 1 KiB to 256 MiB
# in a loop, and up to 16 MiB with every rank writing its input before each call (TOUCH=1), as a
# backward pass would. A ratio is their time over ours in the same round; tables show the median of
# the rounds and, in brackets, the worst.
#
#   MAX=65536 BUDGET=0.02 OPS=all_reduce RANKS=2 bench/compare_collectives.sh PEERS_DIR 1   in short
#   OUT=DIR   keeps there what was measured (default build/collectives)
set -euo pipefail
peers=$(cd "${1:?usage: bench/compare_collectives.sh PEERS_DIR [ROUNDS]}" && pwd)
rounds=${2:-3}
cd "$(dirname "$0")/.."
max=${MAX:-268435456}
touch_max=$((max < 16777216 ? max : 16777216))
ops=${OPS:-all_reduce reduce_scatter all_gather broadcast all_to_all}
export RANKS=${RANKS:-2 4} BUDGET=${BUDGET:-0.2}
export PEERS="own ompi-vader ompi-vader-mt gloo gloo-ring gloo-hd"
export TESSERA=$PWD/build/bin/tessera OWN=$PWD/bench/own_collectives.sh
[ -x "$peers/run.sh" ] || { echo "compare_collectives.sh: no run.sh in $peers" >&2; exit 2; }
root=$PWD
# shellcheck source=tools/build.sh
. tools/build.sh
set_up_and_build build tessera -DCMAKE_BUILD_TYPE=Release
mkdir -p "${OUT:=build/collectives}"
out=$(cd "$OUT" && pwd)
export BUILD=$out/programs
rm -f "$out"/round-*

# run_peers FILE MAX TOUCH: every op with every library, ours among them.
run_peers() {
  for op in $ops; do
    REPS=1 ONLY=$op OUT=$1 MAX=$2 TOUCH=$3 "$peers/run.sh" >/dev/null
  done
}
limits() { "$peers/run.sh" limits quick | grep -E '^(ar|line)'; }

for round in $(seq "$rounds"); do
  echo "# round $round of $rounds" >&2
  at=$out/round-$round
  limits >"$at-before.limits"
  run_peers "$at-hot.tsv" "$max" 0
  limits >"$at-after.limits"
  run_peers "$at-touch.tsv" "$touch_max" 1
  # Every op beside the rate of its own kernel, probed before and after it.
  for ranks in $RANKS; do
    "$TESSERA" bench comm --json --op "${ops// /,}" --ranks "$ranks" --sizes "$max" \
      --budget "$BUDGET" >"$at-ranks-$ranks.json"
  done
done
python3 bench/collective_tables.py "$out"
