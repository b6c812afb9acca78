#!/usr/bin/env python3
"""Training on two ranks of one thread, dp=2 and tp=2, beside PyTorch's DDP over gloo, alternating in one run.

  bench/compare_ddp.py PEERS_DIR [ROUNDS] [SHAPES]

PEERS_DIR holds run_torch.sh and quiet.py (see compare_torch.sh). Both train the same shapes with the same global
batch, with the machine's best kernels; SHAPES are some of A, B, C (all). Also prints how long our compute waited
for communication, with dp=2 also without overlap.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib

SHAPES = {"A": 10, "B": 6, "C": 4}  # steps that are timed; bench/cpu has the models
SKIPPED = 2


def ours(peers, tessera, name, mesh, overlap=True):
    """Tokens per second, and milliseconds per step that rank 0's compute waited for communication."""
    here = pathlib.Path(__file__).resolve().parent
    path = here / "cpu" / f"{name.lower()}.toml"
    with open(path, "rb") as file:
        train = tomllib.load(file)["train"]
    batch = train["micro_batch"]
    with tempfile.TemporaryDirectory() as folder:
        settings = {f"parallel.{mesh}": 2, "parallel.overlap": str(overlap).lower(), "train.threads": 1,
                    "train.global_batch": batch, "train.micro_batch": batch // 2 if mesh == "dp" else batch,
                    "train.steps": SHAPES[name] + SKIPPED, "logging.run_dir": f"{folder}/run"}
        # quiet.py: at the highest priority once the machine is idle, as run_torch.sh runs the other side.
        command = [sys.executable, f"{peers}/quiet.py", "--", tessera, "train", path]
        command += [f"--set={key}={value}" for key, value in settings.items()]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        lines = [json.loads(line) for line in open(f"{folder}/run/metrics.jsonl")]
    steps = [line for line in lines if "step_ms" in line][SKIPPED:]
    ms = statistics.median(step["step_ms"] for step in steps)
    exposed = statistics.median(sum(step["exposed_ms"].values()) for step in steps)
    return batch * train["seq_len"] / ms * 1000, exposed


def torch(peers, name):
    command = [f"{peers}/run_torch.sh", name, "tuned", "2", "1", "--steps", str(SHAPES[name]), "--dist", "ddp"]
    # As compare_torch.sh: OpenBLAS does not know newer CPUs.
    wide = "avx512f" in pathlib.Path("/proc/cpuinfo").read_text().split()
    env = dict(os.environ, **({"OPENBLAS_CORETYPE": "SkylakeX"} if wide else {}))
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, env=env).stdout
    return json.loads([line for line in output.splitlines() if line.startswith("{")][-1])["tokens_s"]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    peers = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    tessera = pathlib.Path(__file__).resolve().parent.parent / "build/bin/tessera"
    if not tessera.exists():
        sys.exit(f"{tessera} is not there; build first: ./test or ./demo")
    for name in sys.argv[3].split() if len(sys.argv) > 3 else SHAPES:
        ratios = {"dp=2": [], "tp=2": []}
        for i in range(rounds):
            theirs = torch(peers, name)
            mine, exposed = ours(peers, tessera, name, "dp")
            serial, exposed_serial = ours(peers, tessera, name, "dp", overlap=False)
            split, exposed_split = ours(peers, tessera, name, "tp")
            ratios["dp=2"].append(mine / theirs)
            ratios["tp=2"].append(split / theirs)
            print(f"shape {name} round {i + 1}: gloo DDP {theirs:.0f} tokens/s; "
                  f"dp=2 {mine:.0f}, ratio {mine / theirs:.2f}, exposed {exposed:.1f} ms a step "
                  f"(without overlap {serial:.0f}, {exposed_serial:.1f} ms); "
                  f"tp=2 {split:.0f}, ratio {split / theirs:.2f}, exposed {exposed_split:.1f} ms", flush=True)
        for mesh, found in ratios.items():
            print(f"shape {name} {mesh}: median ratio {statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f})")


if __name__ == "__main__":
    main()
