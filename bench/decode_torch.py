#!/usr/bin/env python3
"""A peer of `tessera bench decode`: steps of a Llama-shaped model in plain PyTorch on the CPU.

  bench/decode_torch.py llama-3.2-1b --dtype bf16 --batch 1,8 --context 512 --prompt 512 --threads 2
  bench/decode_torch.py TINY.toml --dtype f32 --check      # a step says what the whole prompt says

Random weights, a static cache of keys and values, inference_mode; the step as it is written and, with
--jit, as torch.jit.trace makes it, whichever is faster. Prints one JSON object. Runs on PyTorch 1.13
(Debian's python3-torch) and later.
"""
import argparse
import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from write_gguf import read_shape

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


class Block(torch.nn.Module):
    def __init__(self, shape, dtype):
        super().__init__()
        self.heads, self.kv_heads, self.dim = shape["heads"], shape["kv_heads"], shape["head_dim"]
        self.eps = shape.get("norm_eps", 1e-5)
        hidden, ffn = shape["hidden"], shape["ffn"]
        queries, keys = self.heads * self.dim, self.kv_heads * self.dim

        def weight(rows, cols):
            return torch.nn.Parameter(0.02 * torch.randn(rows, cols).to(dtype), requires_grad=False)

        def ones():
            return torch.nn.Parameter(torch.ones(hidden, dtype=dtype), requires_grad=False)

        self.attn_norm, self.mlp_norm = ones(), ones()
        self.qkv, self.out = weight(queries + 2 * keys, hidden), weight(hidden, queries)
        self.gate_up, self.down = weight(2 * ffn, hidden), weight(hidden, ffn)
        self.widths, self.ffn = (queries, keys, keys), ffn

    def norm(self, x, gain):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return wide.to(x.dtype) * gain

    def turn(self, x, cos, sin):
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    # x [B, T, H]; cache [2, B, kv_heads, context, dim], which gets the keys and values of the T tokens
    # at `first`; mask [T, end] or none, where every token sees all.
    def forward(self, x, cache, first: int, end: int, cos, sin, mask):
        batch, tokens = x.shape[0], x.shape[1]
        q, k, v = F.linear(self.norm(x, self.attn_norm), self.qkv).split(self.widths, -1)
        q = self.turn(q.view(batch, tokens, self.heads, self.dim).transpose(1, 2), cos, sin)
        k = self.turn(k.view(batch, tokens, self.kv_heads, self.dim).transpose(1, 2), cos, sin)
        cache[0, :, :, first:end] = k
        cache[1, :, :, first:end] = v.view(batch, tokens, self.kv_heads, self.dim).transpose(1, 2)
        group = self.heads // self.kv_heads
        # Query heads of a key head are rows of one product, so that keys are not copied for each.
        q = q.reshape(batch, self.kv_heads, group * tokens, self.dim)
        scores = torch.matmul(q, cache[0, :, :, :end].transpose(-1, -2)) / math.sqrt(self.dim)
        if mask is not None:
            scores = (scores.view(batch, self.kv_heads, group, tokens, end) + mask).view_as(scores)
        weights = torch.softmax(scores.float(), -1).to(x.dtype)
        o = torch.matmul(weights, cache[1, :, :, :end])
        o = o.view(batch, self.heads, tokens, self.dim).transpose(1, 2).reshape(batch, tokens, -1)
        x = x + F.linear(o, self.out)
        gate, up = F.linear(self.norm(x, self.mlp_norm), self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Model(torch.nn.Module):
    def __init__(self, shape, dtype):
        super().__init__()
        self.shape = shape
        rows = 0.02 * torch.randn(shape["vocab"], shape["hidden"])
        self.embed = torch.nn.Parameter(rows.to(dtype), requires_grad=False)
        self.head = self.embed
        if not shape.get("tied"):
            rows = 0.02 * torch.randn(shape["vocab"], shape["hidden"])
            self.head = torch.nn.Parameter(rows.to(dtype), requires_grad=False)
        self.blocks = torch.nn.ModuleList(Block(shape, dtype) for _ in range(shape["layers"]))
        self.gain = torch.nn.Parameter(torch.ones(shape["hidden"], dtype=dtype), requires_grad=False)

    def angles(self, first, end, dtype):
        dim = self.shape["head_dim"]
        steps = torch.arange(0, dim, 2, dtype=torch.float32) / dim
        rates = self.shape.get("rope_theta", 10000.0) ** -steps
        angle = torch.arange(first, end, dtype=torch.float32)[:, None] * rates
        return angle.cos().to(dtype), angle.sin().to(dtype)

    def caches(self, batch, context):
        size = (2, batch, self.shape["kv_heads"], context, self.shape["head_dim"])
        return [torch.zeros(size, dtype=self.embed.dtype) for _ in self.blocks]

    # Logits of the last of the tokens at [first, end).
    def forward(self, tokens, caches, first: int, end: int, cos, sin, mask):
        x = F.embedding(tokens, self.embed)
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache, first, end, cos, sin, mask)
        x = self.blocks[0].norm(x[:, -1], self.gain)
        return F.linear(x, self.head)


def mask_of(tokens, dtype):
    return torch.full((tokens, tokens), float("-inf"), dtype=dtype).triu(1)


class Step:
    """One token of each of `batch` sequences, at the end of `context`."""

    def __init__(self, model, batch, context, jit):
        self.tokens = torch.randint(model.shape["vocab"], (batch, 1))
        self.caches = model.caches(batch, context)
        for cache in self.caches:
            cache.normal_()
        cos, sin = model.angles(context - 1, context, model.embed.dtype)

        def run(tokens):
            logits = model(tokens, self.caches, context - 1, context, cos, sin, None)
            return logits.argmax(-1, keepdim=True)

        self.run = torch.jit.trace(run, self.tokens, check_trace=False) if jit else run

    def __call__(self):
        self.tokens = self.run(self.tokens)


def seconds_of(step, least_s):
    step()
    step()
    times = []
    while sum(times) < least_s or len(times) < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def fastest(make, jit, least_s):
    seconds = {"eager": seconds_of(make(False), least_s)}
    if jit:
        seconds["jit"] = seconds_of(make(True), least_s)
    best = min(seconds, key=seconds.get)
    return seconds[best], best


def check(model):
    """The last token's logits of a prompt at once, and token by token."""
    dtype, length = model.embed.dtype, 13
    tokens = torch.randint(model.shape["vocab"], (2, length))
    cos, sin = model.angles(0, length, dtype)
    whole = model(tokens, model.caches(2, length), 0, length, cos, sin, mask_of(length, dtype))
    caches = model.caches(2, length)
    for t in range(length):
        cos, sin = model.angles(t, t + 1, dtype)
        last = model(tokens[:, t : t + 1], caches, t, t + 1, cos, sin, None)
    difference = float((whole - last).abs().max() / whole.abs().max())
    print(json.dumps({"difference": difference}))
    return 0 if difference < 1e-4 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="of catalogue/models, or a .toml file with [model]")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bf16")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--threads", type=int, default=0, help="0: as PyTorch chooses")
    parser.add_argument("--seconds", type=float, default=2, help="of steps, for each figure")
    parser.add_argument("--jit", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.threads > 0:
        torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    with torch.inference_mode():
        model = Model(read_shape(args.model), DTYPES[args.dtype]).eval()
        if args.check:
            sys.exit(check(model))
        report = {"torch": torch.__version__, "threads": torch.get_num_threads(), "decode": []}
        for batch in map(int, args.batch.split(",")):
            step_s, way = fastest(lambda jit: Step(model, batch, args.context, jit), args.jit, args.seconds)
            report["decode"].append({"batch": batch, "tokens_per_s": batch / step_s, "way": way})
        if args.prompt > 0:
            tokens = torch.randint(model.shape["vocab"], (1, args.prompt))
            caches = model.caches(1, args.prompt)
            cos, sin = model.angles(0, args.prompt, model.embed.dtype)
            mask = mask_of(args.prompt, model.embed.dtype)
            prefill = lambda: model(tokens, caches, 0, args.prompt, cos, sin, mask)
            report["prefill"] = {"tokens_per_s": args.prompt / seconds_of(prefill, args.seconds)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
