#!/usr/bin/env bash
# Saves beside the steps on one GPU: what they stall, that memory is what was planned, and that a run that was
# killed ends with the bits of the run that nothing happened to.
#
#   bench/gpu/checkpoints.sh TESSERA FOLDER [straight|disk|memory ...]
#
# FOLDER takes about 60 GB with 16 layers (LAYERS=N for another number; MORE="--set ..." for other settings). The parts:
#   straight  12 steps with saves beside them; keep = 2
#   disk      goes on from its step 6 in another folder, is killed (SIGKILL) once step 8 is saved, goes on from disk
#   memory    goes on from its step 6 with --restarts, is killed in step 10, goes on from the snapshot of step 9
# The last two compare their weights with those of the first. Without names: all.
set -euo pipefail

tessera=$(realpath "$1")
mkdir -p "$2"
run_file=$(realpath "$(dirname "${BASH_SOURCE[0]}")/llama-1.2b.toml")
cd "$2"
shift 2
parts=("$@")
if ((${#parts[@]} == 0)); then parts=(straight disk memory); fi

settings=(--set "model.layers=${LAYERS:-16}" --set parallel.recompute=none --set train.micro_batch=1
  --set train.global_batch=1 --set train.seq_len=1024 --set train.steps=12 --set train.device=cuda
  --set train.deterministic=true --set checkpoint.keep=2 --set checkpoint.async=true)
read -ra more <<< "${MORE:-}"
settings+=("${more[@]}")
train() { "$tessera" train "$run_file" "${settings[@]}" "$@"; }
seconds() { date +%s.%N; }

figures() { # FOLDER: of its events, metrics, plan and summary
  python3 - "$1" << 'PYTHON'
import json
import os
import statistics
import sys

folder = sys.argv[1]
def lines(name):
    path = os.path.join(folder, name)
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []
summary = json.load(open(os.path.join(folder, "summary.json")))
plan = json.load(open(os.path.join(folder, "plan.json")))
saves = summary.get("checkpoints", {})
metrics = [line for line in lines("metrics.jsonl") if "step_ms" in line]
steps = [line["step_ms"] for line in metrics][1:]
print(f"  step_ms: median {statistics.median(steps):.1f}, largest {max(steps):.1f}")
# What lies between the line of a step and the next step: the copy, where one is made.
gaps = {a["step"]: 1e3 * (b["time"] - a["time"]) - b["step_ms"] for a, b in zip(metrics, metrics[1:])}
print("  ms after steps:", {step: round(gap, 1) for step, gap in gaps.items()})
print(f"  saves: {saves}")
copies = saves.get("saves", 0) + saves.get("snapshots", 0)
taken, planned = saves.get("staging_bytes"), plan.get("checkpoints", {}).get("staging_bytes")
print(f"  staging bytes: taken {taken}, planned {planned}: {'equal' if taken == planned else 'DIFFERENT'}")
for event in lines("events.jsonl"):
    if event["event"] in ("save", "save skipped", "save failed", "resume", "restart", "verdict"):
        print("  event:", {k: v for k, v in event.items() if k not in ("time", "pid", "reason")})
if taken != planned:
    sys.exit(f"{folder}: saves took {taken} bytes of memory, but {planned} were planned")
PYTHON
}

same() { # FOLDER
  if cmp straight/model.safetensors "$1/model.safetensors"; then
    echo "  $1: the weights are those of the undisturbed run, bit for bit"
  else
    echo "  $1: OTHER WEIGHTS"
    return 1
  fi
}

for part in "${parts[@]}"; do
  begin=$(seconds)
  echo "== $part"
  case $part in
    straight)
      rm -rf straight disk memory
      train -q --threads --set logging.run_dir=straight --set checkpoint.every=6
      figures straight
      rm -rf base && mkdir base
      mv straight/checkpoints/step-00000006 base
      rm -rf straight/checkpoints
      ;;
    disk)
      rm -rf disk
      TESSERA_FAULT="step.begin:act=delay=5000" "$tessera" train "$run_file" "${settings[@]}" -q --threads \
        --set logging.run_dir=disk --set checkpoint.every=2 --resume base &
      job=$!
      for _ in $(seq 600); do
        if [[ -e disk/checkpoints/step-00000008/COMMIT ]] || ! kill -0 $job 2>/dev/null; then break; fi
        sleep 0.2
      done
      kill -KILL $job 2>/dev/null || true
      if wait $job; then echo "  NOT KILLED: it had come to its end"; fi
      ls disk/checkpoints
      train -q --threads --set logging.run_dir=disk --set checkpoint.every=6 --resume auto
      figures disk
      same disk
      rm -rf disk/checkpoints
      ;;
    memory)
      rm -rf memory
      TESSERA_FAULT="step.begin:step=10,act=delay=15000;step.begin:step=10,act=kill" "$tessera" train "$run_file" \
        "${settings[@]}" -q --restarts 1 --set logging.run_dir=memory --set checkpoint.every=100 \
        --set checkpoint.memory_every=3 --resume base
      figures memory
      same memory
      rm -rf memory/checkpoints
      ;;
  esac
  awk -v a="$begin" -v b="$(seconds)" 'BEGIN { printf "  %.1f s\n", b - a }'
done
