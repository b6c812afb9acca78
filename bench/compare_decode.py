#!/usr/bin/env python3
"""Serving's steps beside those of PyTorch and llama.cpp on the CPU, in turns in one run.

  bench/compare_decode.py [--model llama-3.2-1b] [--dtype bf16] [--batch 1,8] [--rounds 3]
      [--torch-python /usr/bin/python3]
      [--llama-bench PATH] [--llama-batched-bench PATH] [--gguf FILE]

In every round each program measures the same shape: a token for each of BATCH sequences that have
--context tokens, and a prompt of --prompt tokens. PyTorch runs bench/decode_torch.py; leave it out
with --torch-python ''. llama.cpp is measured where its binaries are given, on a file that
bench/write_gguf.py writes (--gguf FILE: there, kept; else in a folder that is removed). Prints every
round and the median ratios. Run it on an idle machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import write_gguf

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 3600


def output_of(command, what):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S)
    if result.returncode != 0:
        sys.exit(f"compare_decode.py: {what} failed:\n{result.stderr[-2000:]}")
    return result.stdout


def lines_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def last_line_of(command, what):
    """llama-batched-bench prints on a thread, and now and then ends before that."""
    for _ in range(5):
        lines = lines_of(output_of(command, what))
        if lines:
            return lines[-1]
    sys.exit(f"compare_decode.py: {what} printed no figures: {' '.join(map(str, command))}")


def tessera(args):
    command = [args.tessera, "bench", "decode", "--random", args.model, "--dtype", args.dtype]
    command += ["--batch", args.batch, "--context", args.context, "--prompt", args.prompt]
    command += ["--threads", args.threads, "--rounds", 3, "--seconds", 2, "--json"]
    report = json.loads(output_of(command, "tessera bench decode"))
    rates = {f"batch {one['batch']}": one["tokens_per_s"] for one in report["decode"]}
    rates["prefill"] = report["prefill"]["tokens_per_s"]
    shares = {f"batch {one['batch']}": one["share_of_probe"] for one in report["decode"]}
    shares["prefill"] = report["prefill"]["share_of_product"]
    return rates, shares


def torch(args):
    command = [args.torch_python, HERE / "decode_torch.py", args.model, "--dtype", args.dtype, "--jit"]
    command += ["--batch", args.batch, "--context", args.context, "--prompt", args.prompt]
    command += ["--threads", args.threads]
    report = last_line_of(command, "decode_torch.py")
    rates = {f"batch {one['batch']}": one["tokens_per_s"] for one in report["decode"]}
    rates["prefill"] = report["prefill"]["tokens_per_s"]
    return rates


def llama(args, gguf):
    """llama-bench has one sequence; llama-batched-bench has several."""
    rates = {}
    if args.llama_bench:
        common = [args.llama_bench, "-m", gguf, "-t", args.threads, "-o", "jsonl", "-r", 3]
        decode = common + ["-p", 0, "-n", args.tokens, "-d", args.context - args.tokens]
        prefill = common + ["-p", args.prompt, "-n", 0]
        rates["batch 1"] = last_line_of(decode, "llama-bench")["avg_ts"]
        rates["prefill"] = last_line_of(prefill, "llama-bench")["avg_ts"]
    if args.llama_batched_bench:
        for batch in map(int, args.batch.split(",")):
            if batch == 1 and args.llama_bench:
                continue
            room = batch * -(-args.context // 256) * 256  # as llama.cpp rounds each sequence
            command = [args.llama_batched_bench, "-m", gguf, "-t", args.threads, "-c", room, "-npl", batch]
            command += ["-npp", args.context - args.tokens, "-ntg", args.tokens, "--output-format", "jsonl"]
            rates[f"batch {batch}"] = last_line_of(command, "llama-batched-bench")["speed_tg"]
    return rates


def show(round_number, name, rates, shares=None):
    words = [f"{what} {rate:.1f} tokens/s" for what, rate in rates.items()]
    for what, share in (shares or {}).items():
        words.append(f"{what} {share:.2f} of the limit")
    print(f"round {round_number}: {name}: " + ", ".join(words), flush=True)


def compare(args, gguf):
    peers = {}
    if args.torch_python:
        peers["torch"] = lambda: torch(args)
    if args.llama_bench or args.llama_batched_bench:
        peers["llama.cpp"] = lambda: llama(args, gguf)
    ratios = {}
    for number in range(1, args.rounds + 1):
        ours, shares = tessera(args)
        show(number, "tessera", ours, shares)
        for name, measure in peers.items():
            theirs = measure()
            show(number, name, theirs)
            for what, rate in theirs.items():
                ratios.setdefault((name, what), []).append(ours[what] / rate)
    for (name, what), values in ratios.items():
        low, high = min(values), max(values)
        print(f"{what}: {statistics.median(values):.2f} of {name} ({low:.2f} to {high:.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="llama-3.2-1b", help="of the catalogue")
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32, help="that llama.cpp writes for a figure")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tessera", default=HERE.parent / "build" / "bin" / "tessera")
    parser.add_argument("--torch-python", default="/usr/bin/python3", help="that has PyTorch; '': none")
    parser.add_argument("--llama-bench", help="that binary of llama.cpp")
    parser.add_argument("--llama-batched-bench", help="that binary, for several sequences")
    parser.add_argument("--gguf", help="where the file for llama.cpp lies, or is written")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gguf = pathlib.Path(args.gguf or pathlib.Path(folder, "model.gguf"))
        if (args.llama_bench or args.llama_batched_bench) and not gguf.exists():
            write_gguf.write(write_gguf.read_shape(args.model), args.model, args.dtype, gguf)
        compare(args, gguf)


if __name__ == "__main__":
    main()
