#!/usr/bin/env python3
"""What a lost rank costs, what saves beside the steps cost a step, and torch.distributed.checkpoint beside ours.

    bench/checkpoints.py restart TESSERA FOLDER    kills a rank; from disk, and from a snapshot in memory
    bench/checkpoints.py overhead TESSERA FOLDER   steps with and without saves, in turns
    bench/checkpoints.py torch FOLDER BYTES        torch's save and load of one state of so many bytes

`checkpoint_bench FOLDER` (in the build folder) has the rest: copies, sums, writing and reading beside plain files.
Needs nothing but the standard library; the last one a PyTorch from 1.13 on (Debian's python3-torch, which /usr/bin/python3 imports).
"""
import dataclasses
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

EVERY = 8  # steps from one save to the next, where overhead is measured
SMALL = """
[model]
layers = 2
hidden = 64
ffn = 96
heads = 2
vocab = 256
[parallel]
dp = 2
zero = 1
[train]
seq_len = 64
global_batch = 8
steps = 400
threads = 1
[data.synth]
bytes = 100000
[checkpoint]
"""
LARGE = """
[model]
layers = 4
hidden = 512
ffn = 1408
heads = 8
vocab = 8192
[train]
seq_len = 128
global_batch = 4
steps = 24
threads = 1
[data.synth]
bytes = 100000
"""


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def run_file(folder, text):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(f"{folder}/run.toml", "w") as file:
        file.write(text)


def wait_for(condition, seconds=120):
    end = time.time() + seconds
    while time.time() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise SystemExit("checkpoints.py: nothing happened for two minutes")


def one_loss(tessera, folder, keys):
    """Seconds from SIGKILL to the verdict, and to the end of the first step after it."""
    run_file(folder, SMALL + keys)
    command = [tessera, "train", "run.toml", "-q", "--restarts", "1", "--set", "logging.run_dir=out"]
    job = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics, events = f"{folder}/out/metrics.jsonl", f"{folder}/out/events.jsonl"
    wait_for(lambda: len(lines(metrics)) >= 60)
    killed = time.time()
    os.kill(children(job.pid)[-1], signal.SIGKILL)
    verdict = wait_for(lambda: [e for e in lines(events) if e["event"] == "verdict"])[0]["time"]
    resumed = wait_for(lambda: [e for e in lines(events) if e["event"] == "resume"])[0]
    step = wait_for(lambda: [m for m in lines(metrics) if m["step"] > resumed["step"] and m["time"] > resumed["time"]])[0]
    job.send_signal(signal.SIGKILL)
    job.wait()
    return verdict - killed, step["time"] - killed, resumed


def restart(tessera, folder):
    for name, keys in (("disk", "every = 20\n"), ("memory", "every = 100000\nmemory_every = 5\n")):
        times = [one_loss(tessera, folder, keys) for _ in range(5)]
        assert all(bool(t[2].get("memory")) == (name == "memory") for t in times), times
        print(f"{name:7} verdict after {statistics.median(t[0] for t in times):.3f} s (largest {max(t[0] for t in times):.3f}), "
              f"first step done after {statistics.median(t[1] for t in times):.2f} s (largest {max(t[1] for t in times):.2f})")


def step_times(tessera, folder, keys):
    """Milliseconds from line to line of metrics.jsonl, those after each step that belong to none, and the summary."""
    run_file(folder, LARGE + keys)
    subprocess.run([tessera, "train", "run.toml", "-q", "--threads", "--set", "logging.run_dir=out"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    metrics = lines(f"{folder}/out/metrics.jsonl")[4:]
    with open(f"{folder}/out/summary.json") as file:
        summary = json.load(file)
    # From line to line, so that what lies between steps counts as well.
    pairs = list(zip(metrics, metrics[1:]))
    between = [1e3 * (b["time"] - a["time"]) for a, b in pairs]
    after = {a["step"]: 1e3 * (b["time"] - a["time"]) - b["step_ms"] for a, b in pairs}
    return statistics.mean(between), after, summary.get("checkpoints", {})


def overhead(tessera, folder):
    """Everything that a step takes, saves included, against the same steps without; and what stands still for the copy."""
    plain, saved, copies, idle = [], [], [], []
    for _ in range(3):
        ms, after, _ = step_times(tessera, folder, "")
        plain.append(ms)
        ms, after, figures = step_times(tessera, folder, f"[checkpoint]\nevery = {EVERY}\nkeep = 2\n")
        saved.append(ms)
        for step, gap in after.items():
            (idle if step % EVERY else copies).append(gap)
    count = figures["staging_bytes"][0]
    print(f"a step {statistics.median(plain):.0f} ms, with a save every {EVERY} steps {statistics.median(saved):.0f} ms: "
          f"{100 * (statistics.median(saved) / statistics.median(plain) - 1):+.1f} %; {figures['saves']} saves, "
          f"{count / 1e6:.0f} MB each")
    print(f"between steps {statistics.median(idle):.1f} ms, where a save begins {statistics.median(copies):.1f} ms "
          f"({count / statistics.median(copies) / 1e6:.2f} GB/s), largest {max(copies):.1f} ms")


def early_torch_checkpoint():
    """The module before it had its name, in PyTorch 1.13, which Python 3.11 refuses to import: defaults of dataclasses that have no hash."""
    plain = dataclasses.dataclass

    def lenient(cls=None, **options):
        def make(made):
            for value in [getattr(value, "default", value) for value in vars(made).values()]:
                if dataclasses.is_dataclass(value) and type(value).__hash__ is None:
                    type(value).__hash__ = object.__hash__
            return plain(made, **options)
        return make if cls is None else make(cls)

    dataclasses.dataclass = lenient
    try:
        import torch.distributed._shard.checkpoint as checkpoint
    finally:
        dataclasses.dataclass = plain
    return checkpoint


def torch_checkpoint():
    """save(state, folder) and load(state, folder), on one rank, with files that are synced."""
    try:
        import torch.distributed.checkpoint as checkpoint
    except ImportError:
        checkpoint = early_torch_checkpoint()
    if hasattr(checkpoint, "save"):
        return (lambda state, place: checkpoint.save(state, storage_writer=checkpoint.FileSystemWriter(place, sync_files=True)),
                lambda state, place: checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(place)))
    return (lambda state, place: checkpoint.save_state_dict(state, checkpoint.FileSystemWriter(place, sync_files=True), no_dist=True),
            lambda state, place: checkpoint.load_state_dict(state, checkpoint.FileSystemReader(place), no_dist=True))


def torch_times(folder, count):
    import torch
    state = {f"layer.{i}": torch.ones(count // 4 // 16) for i in range(16)}
    try:
        save_to, load_from = torch_checkpoint()
    except ImportError as error:
        raise SystemExit(f"checkpoints.py: PyTorch {torch.__version__} has no torch.distributed.checkpoint: {error}")
    place = f"{folder}/torch"
    save, load = [], []
    for _ in range(5):
        shutil.rmtree(place, ignore_errors=True)
        os.sync()
        begin = time.time()
        save_to(state, place)
        save.append(time.time() - begin)
        for root, _, files in os.walk(place):
            for name in files:
                with open(os.path.join(root, name), "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        found = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        begin = time.time()
        load_from(found, place)
        load.append(time.time() - begin)
        assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
    for name, times in (("save", save), ("load", load)):
        print(f"torch {torch.__version__} {name}: median {1e3 * statistics.median(times):.0f} ms, {count / statistics.median(times) / 1e9:.2f} GB/s")


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "restart":
        restart(os.path.realpath(arguments[1]), arguments[2])
    elif len(arguments) == 3 and arguments[0] == "overhead":
        overhead(os.path.realpath(arguments[1]), arguments[2])
    elif len(arguments) == 3 and arguments[0] == "torch":
        torch_times(arguments[1], int(float(arguments[2])))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
