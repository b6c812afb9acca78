#!/usr/bin/env python3
"""Data-parallel training on two processes beside PyTorch's DDP over gloo, alternating in one run.

  bench/compare_ddp.py PEERS_DIR [ROUNDS]

PEERS_DIR holds run_torch.sh (see compare_torch.sh). Both train the same shapes with the same global
batch on two processes of one thread. Also prints how long our compute waited for communication with
overlap on and off.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

SHAPES = {  # as in run_torch.sh
    "A": dict(layers=4, hidden=256, ffn=768, heads=4, kv_heads=2, vocab=8192, seq_len=256, batch=8),
    "B": dict(layers=8, hidden=512, ffn=1408, heads=8, kv_heads=4, vocab=16384, seq_len=512, batch=4),
}
STEPS = 10
SKIPPED = 2


def run_file(shape, folder):
    model = "\n".join(f"{k} = {shape[k]}" for k in ("layers", "hidden", "ffn", "heads", "kv_heads", "vocab"))
    return f"""[model]
{model}
[parallel]
dp = 2
[train]
seq_len = {shape["seq_len"]}
global_batch = {shape["batch"]}
micro_batch = {shape["batch"] // 2}
steps = {STEPS}
threads = 1
[logging]
run_dir = "{folder}/run"
"""


def ours(tessera, shape, overlap):
    """Tokens per second, and milliseconds per step that rank 0's compute waited for communication."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "run.toml")
        path.write_text(run_file(shape, folder))
        setting = f"parallel.overlap={'true' if overlap else 'false'}"
        subprocess.run([tessera, "train", path, "--set", setting], check=True, capture_output=True, timeout=600)
        lines = [json.loads(line) for line in open(f"{folder}/run/metrics.jsonl")]
    steps = [line for line in lines if "step_ms" in line][SKIPPED:]
    ms = statistics.median(step["step_ms"] for step in steps)
    exposed = statistics.median(sum(step["exposed_ms"].values()) for step in steps)
    return shape["batch"] * shape["seq_len"] / ms * 1000, exposed


def torch(peers, name):
    command = [f"{peers}/run_torch.sh", name, "tuned", "2", "1", "--steps", str(STEPS), "--dist", "ddp"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    return json.loads([line for line in output.splitlines() if line.startswith("{")][-1])["tokens_s"]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    peers = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    tessera = pathlib.Path(__file__).resolve().parent.parent / "build/bin/tessera"
    if not tessera.exists():
        sys.exit(f"{tessera} is not there; build first: ./test or ./demo")
    for name, shape in SHAPES.items():
        ratios = []
        for i in range(rounds):
            theirs = torch(peers, name)
            mine, exposed = ours(tessera, shape, overlap=True)
            serial, exposed_serial = ours(tessera, shape, overlap=False)
            ratios.append(mine / theirs)
            print(f"shape {name} round {i + 1}: gloo DDP {theirs:.0f} tokens/s, tessera {mine:.0f}, "
                  f"ratio {ratios[-1]:.2f}; exposed {exposed:.1f} ms a step; "
                  f"without overlap {serial:.0f} tokens/s, exposed {exposed_serial:.1f} ms", flush=True)
        print(f"shape {name}: median ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


if __name__ == "__main__":
    main()
