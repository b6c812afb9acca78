#!/usr/bin/env bash
# Usage: run_examples.sh PROGRAMS OUTPUTS
# Runs the examples 02 to 05 that lie in PROGRAMS, and looks for what each must say.
set -euo pipefail
programs=$1 outputs=$2
rm -rf "$outputs"
mkdir -p "$outputs"

# try NAME PATTERN ARGUMENTS...
try() {
  local name=$1 pattern=$2
  shift 2
  local said
  said=$(timeout 300 "$programs/$name" "$@") || { echo "$name ended with $?: $said"; exit 1; }
  grep -q "$pattern" <<<"$said" || { echo "$name does not say '$pattern': $said"; exit 1; }
  echo "$name: $(grep "$pattern" <<<"$said")"
}

try 02_plan '405853388800 parameters, tp 8 x pp 16 x dp 128'
try 03_train 'bytes and instructions of 2 ranks are as planned' "$outputs/run"
[[ -s $outputs/run/metrics.jsonl ]]
try 04_own_schedule '^at most 1 .* 1 '
try 05_simulate 'with one GPU 1.3 times slower' "$outputs/step.svg"
grep -q '</svg>' "$outputs/step.svg"
