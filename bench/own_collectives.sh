#!/usr/bin/env bash
# Our collectives as the benchmarks of other libraries call them:
#
#   bench/own_collectives.sh RANKS MAX_BYTES BUDGET_SECONDS [OP]
#
# Prints rows of name, op, ranks, bytes, us, algbw, busbw. TOUCH=1: every rank writes its input before
# each call. TESSERA=FILE: another program than build/bin/tessera.
set -euo pipefail
usage="usage: bench/own_collectives.sh RANKS MAX_BYTES BUDGET_SECONDS [OP]"
ranks=${1:?$usage} max=${2:?$usage} budget=${3:?$usage}
op=${4:-all_reduce,reduce_scatter,all_gather,broadcast,all_to_all}
tessera=${TESSERA:-$(dirname "$0")/../build/bin/tessera}
flags=()
if [ "${TOUCH:-0}" != 0 ]; then flags+=(--touch); fi
exec "$tessera" bench comm --backend shm --tsv --op "$op" --ranks "$ranks" --sizes "1K-$max" \
  --budget "$budget" "${flags[@]}"
