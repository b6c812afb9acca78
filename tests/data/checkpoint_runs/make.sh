#!/usr/bin/env bash
# Makes the checkpoints of this folder anew: real runs, saved after step 4 of 6, as Tessera 0.2 wrote
# them (version 1.0 of the format). They are kept as they are: a later Tessera reads them.
#
#   tests/data/checkpoint_runs/make.sh TESSERA
#
# bf16 has 16-bit rests beside its weights, f16 an f32 copy of them and a loss scale. What the runs gave is
# in expected.json: the losses of steps 5 and 6, that of the text below after step 4, and a hash of the
# weights of step 4 as export-hf writes them.
set -euo pipefail
tessera=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'A boy ran to the sea and saw a red ship. It was far away, and he was glad to see it.\n' >"$work/text.txt"
for dtype in bf16 f16; do
  "$tessera" train run.toml -q --threads --set "logging.run_dir=$work/$dtype" --set "train.dtype=$dtype" >"$work/log"
  rm -rf "$dtype"
  mkdir "$dtype"
  cp -r "$work/$dtype/checkpoints/step-00000004" "$dtype/"
  "$tessera" eval "$dtype/step-00000004" --data "$work/text.txt" --json >"$work/$dtype.eval.json"
  "$tessera" export-hf "$dtype/step-00000004" "$work/$dtype.hf" >"$work/log"
done
python3 - "$work" <<'PYTHON' >expected.json
import hashlib
import json
import sys

work = sys.argv[1]
def data_hash(path):
    with open(path, "rb") as file:
        whole = file.read()
    return hashlib.sha256(whole[8 + int.from_bytes(whole[:8], "little"):]).hexdigest()

expected = {}
for dtype in ("bf16", "f16"):
    with open(f"{work}/{dtype}/metrics.jsonl") as lines:
        losses = {line["step"]: line["loss"] for line in map(json.loads, lines)}
    with open(f"{work}/{dtype}.eval.json") as file:
        evaluated = json.load(file)
    expected[dtype] = {"loss": {str(step): losses[step] for step in (5, 6)},
                       "eval": evaluated["sets"][0]["loss"],
                       "data_sha256": data_hash(f"{work}/{dtype}.hf/model.safetensors")}
print(json.dumps(expected, indent=1))
PYTHON
chmod -R u+rw,go+r bf16 f16
