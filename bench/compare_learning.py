#!/usr/bin/env python3
"""A loss curve beside PyTorch's: the same model, first weights, batches in the same order, and optimizer.

    bench/compare_learning.py build/bin/tessera bench/gpu/learn-124m.toml FOLDER

FOLDER keeps everything: stories (`data synth`), tokenizer, sets, first weights, batches, the run, and
curves.csv with both losses of every step. What is there already is not made again (but for the runs). The model is one of
transformers' (GPT-2, Llama, ...), trained in bf16 autocast with fused AdamW. Prints both losses every 50
steps and the largest difference of the smoothed curves; exits with 1 where that is above --tolerance.

Where a loss falls all of a sudden, the rounding of bf16 decides when: --again train.micro_batch=32 trains our half once
more with that setting, which changes the order of sums alone, and two runs of ours may then differ as much. The
tolerance is not below that difference. --keep uses the runs that FOLDER has, so that the parts can be done one by one.
"""
import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys
import time

SMOOTH = 0.95  # what the past weighs


class Tessera:
    def __init__(self, options):
        self.program, self.run_file, self.extra = options.tessera, options.run_file, options.set
        self.folder = pathlib.Path(options.folder)

    def call(self, *words, shown=True):
        start = time.time()
        subprocess.run([self.program, *map(str, words)], check=True,
                       stdout=None if shown else subprocess.DEVNULL)
        print(f"# tessera {words[0]} {words[1]}: {time.time() - start:.1f} s", flush=True)

    def settings(self, *more):
        given = [f"data.train={self.folder}/set/train", f"data.valid={self.folder}/set/valid",
                 *self.extra, *more]
        return [word for setting in given for word in ("--set", setting)]

    def prepare(self, size, vocab):
        text, set_folder = self.folder / "stories.txt", self.folder / "set"
        if not text.exists():
            self.call("data", "synth", "--seed", 1, "--bytes", size, "-o", text)
        if not (self.folder / "tokenizer").exists():
            part = self.folder / "part.txt"  # enough to learn the words from
            with open(text, "rb") as whole:
                part.write_bytes(whole.read(8_000_000))
            self.call("data", "tokenizer", "train", part, "--vocab", vocab, "--out",
                      self.folder / "tokenizer")
        if not (set_folder / "train" / "set.json").exists():
            self.call("data", "prepare", text, "--separator", "\\n\\n", "--tokenizer",
                      self.folder / "tokenizer", "--out", set_folder, "--valid", 0.01)

    # One step with a rate that no weight feels, in f32: the weights that a run begins with.
    def first_weights(self):
        out = self.folder / "first"
        if out.exists():
            return out
        still = ["train.steps=1", "optimizer.lr=1e-30", "optimizer.warmup=0", "optimizer.min_lr=0",
                 "train.dtype=f32", "train.gradients=f32", "train.device=cpu", "train.seq_len=16",
                 "train.micro_batch=1", "train.global_batch=1", "eval.every=0", "eval.batches=0",
                 f"logging.run_dir={self.folder}/first-run"]
        self.call("train", self.run_file, "--overwrite", *self.settings(*still))
        self.call("export-hf", self.folder / "first-run", out)
        return out

    def batches(self, steps):
        out = self.folder / "batches.safetensors"
        self.call("data", "samples", self.run_file, "--steps", f"1..{steps}", "--out", out,
                  *self.settings(), shown=False)
        return out

    def resolved(self):
        return json.loads((self.folder / "run" / "resolved.json").read_text())

    def train(self, weights, name, keep, *more, minutes=None):
        run = self.folder / name
        if not (keep and (run / "model.safetensors").exists()):
            limit = ["--max-minutes", minutes] if minutes else []
            self.call("train", self.run_file, "--overwrite", *limit,
                      *self.settings(f"model.hf={weights}", f"logging.run_dir={run}", "logging.every=1", *more))
        with open(run / "metrics.jsonl") as lines:
            return [line["loss"] for line in map(json.loads, lines) if "loss" in line]


def learning_rate(optimizer, step, steps):
    """As docs/training.md has it."""
    lr, low, warmup = optimizer["lr"], optimizer["min_lr"], optimizer["warmup"]
    if step <= warmup:
        return lr * step / warmup
    x = (step - 1 - warmup) / (steps - warmup)
    if optimizer["schedule"] == "constant":
        return lr
    if optimizer["schedule"] == "linear":
        return lr - (lr - low) * x
    assert optimizer["schedule"] == "cosine", optimizer["schedule"]
    return low + (lr - low) * (1 + math.cos(math.pi * x)) / 2


def train_torch(weights, batches, run, minutes):
    import torch
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.backends.cuda.matmul.allow_tf32 = True
    optimizer_spec, train = run["optimizer"], run["train"]
    config = AutoConfig.from_pretrained(weights)
    for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    model = AutoModelForCausalLM.from_pretrained(weights, config=config, dtype=torch.float32,
                                                 attn_implementation="sdpa").cuda().train()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": optimizer_spec["weight_decay"]},
         {"params": others, "weight_decay": 0.0}],
        lr=1.0, betas=tuple(optimizer_spec["betas"]), eps=optimizer_spec["eps"], fused=True)
    data = load_file(batches)
    batch, steps, micro = train["global_batch"], train["steps"], train["micro_batch"]
    losses, start = [], time.time()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(optimizer_spec, step, steps)
        loss = torch.zeros((), device="cuda")
        for first in range((step - 1) * batch, step * batch, micro):
            tokens = data["tokens"][first:first + micro].cuda(non_blocking=True).long()
            labels = data["labels"][first:first + micro].cuda(non_blocking=True).long()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(tokens, use_cache=False).logits
                part = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(),
                                                         labels.view(-1)) * micro / batch
            part.backward()
            loss += part.detach()
        if optimizer_spec["clip"] > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer_spec["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if time.time() - start > minutes * 60:
            print(f"# PyTorch: stopped after {step} steps, {minutes} minutes", flush=True)
            break
    seconds = time.time() - start
    print(f"# PyTorch: {len(losses)} steps in {seconds:.1f} s, "
          f"{len(losses) * batch * train['seq_len'] / seconds:,.0f} tokens/s", flush=True)
    return losses


def smoothed(values):
    result, mean, weight = [], 0.0, 0.0
    for value in values:
        mean, weight = SMOOTH * mean + (1 - SMOOTH) * value, SMOOTH * weight + 1 - SMOOTH
        result.append(mean / weight)
    return result


def largest_difference(ours, theirs):
    """Of the smoothed curves, and the step where it is."""
    pairs = zip(smoothed(ours), smoothed(theirs))
    at, worst = max(enumerate((abs(a - b) for a, b in pairs), 1), key=lambda pair: pair[1])
    return worst, at


def compare(ours, theirs, folder):
    both = list(zip(ours, theirs, smoothed(ours), smoothed(theirs)))
    with open(folder / "curves.csv", "w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["step", "tessera", "pytorch", "tessera_smoothed", "pytorch_smoothed"])
        for step, row in enumerate(both, 1):
            table.writerow([step, *(f"{value:.6f}" for value in row)])
    print("step  tessera  PyTorch  difference")
    for step, (mine, other, _, _) in enumerate(both, 1):
        if step == 1 or step % 50 == 0 or step == len(both):
            print(f"{step:4d}  {mine:7.4f}  {other:7.4f}  {mine - other:+.4f}")
    worst, at = largest_difference(ours, theirs)
    print(f"largest difference of the smoothed curves: {worst:.4f}, at step {at} of {len(both)}")
    return worst


def kept_or(file, keep, make):
    if not (keep and file.exists()):
        file.write_text(json.dumps(make()))
    return json.loads(file.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tessera")
    parser.add_argument("run_file")
    parser.add_argument("folder")
    parser.add_argument("--set", action="append", default=[], help="a setting for every run, as of tessera")
    parser.add_argument("--bytes", type=int, default=120_000_000, help="of stories")
    parser.add_argument("--vocab", type=int, default=8192, help="of the tokenizer")
    parser.add_argument("--minutes", type=float, default=3.5, help="PyTorch stops after so many")
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--again", metavar="SETTING", help="our half once more with it, for as long as PyTorch's")
    parser.add_argument("--keep", action="store_true", help="use the runs that FOLDER has")
    parser.add_argument("--prepare-only", action="store_true", help="data and weights alone: no GPU")
    parser.add_argument("--without-torch", action="store_true", help="our half alone")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    options.folder = folder
    tessera = Tessera(options)
    tessera.prepare(options.bytes, options.vocab)
    weights = tessera.first_weights()
    if options.prepare_only:
        return
    ours = tessera.train(weights, "run", options.keep)
    run = tessera.resolved()
    batches = tessera.batches(run["train"]["steps"])
    tolerance = options.tolerance
    if options.again:
        again = tessera.train(weights, "again", options.keep, options.again, minutes=options.minutes)
        apart, at = largest_difference(ours, again)
        print(f"two runs of ours, one with {options.again}: {apart:.4f} apart at step {at} of {min(len(ours), len(again))}")
        tolerance = max(tolerance, apart)
    if options.without_torch:
        print(f"losses of {len(ours)} steps: {ours[0]:.4f} to {ours[-1]:.4f}")
        return
    theirs = kept_or(folder / "pytorch.json", options.keep,
                     lambda: train_torch(weights, batches, run, options.minutes))
    if compare(ours, theirs, folder) > tolerance:
        sys.exit(1)


if __name__ == "__main__":
    main()
