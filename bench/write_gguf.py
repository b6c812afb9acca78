#!/usr/bin/env python3
"""Writes a GGUF file of a model of the catalogue with weights that nobody trained, for measurements.

  bench/write_gguf.py llama-3.2-1b OUT.gguf [--dtype bf16|f32]

Only Llama's family. There is no tokenizer in it: programs that measure choose ids at random. Needs
nothing but Python.
"""
import argparse
import array
import pathlib
import random
import struct
import sys
import tomllib

CATALOGUE = pathlib.Path(__file__).resolve().parent.parent / "catalogue" / "models"
ALIGNMENT = 32
U32, F32, STRING = 4, 6, 8  # types of values
TYPES = {"f32": (0, 4), "bf16": (30, 2)}  # of tensors: number in the file, bytes of an element
PERIOD = 65521  # values that come over and over


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", F32, value)
    return text(key) + struct.pack("<II", U32, value)


def read_shape(name):
    """The [model] of a catalogue entry, or of a file."""
    path = pathlib.Path(name) if name.endswith(".toml") else CATALOGUE / f"{name}.toml"
    if not path.exists():
        sys.exit(f"write_gguf.py: '{path}' does not exist; name a model of {CATALOGUE}")
    model = tomllib.loads(path.read_text())["model"]
    model.setdefault("kv_heads", model["heads"])
    model.setdefault("head_dim", model["hidden"] // model["heads"])
    for key in ("experts", "qk_norm", "sliding_window", "kv_rank"):
        if model.get(key):
            sys.exit(f"write_gguf.py: '{name}' has {key}, and only plain Llama shapes are written")
    return model


def metadata(model, name):
    return [
        ("general.architecture", "llama"),
        ("general.name", name),
        ("general.alignment", ALIGNMENT),
        ("llama.block_count", model["layers"]),
        ("llama.context_length", 8192),
        ("llama.embedding_length", model["hidden"]),
        ("llama.feed_forward_length", model["ffn"]),
        ("llama.attention.head_count", model["heads"]),
        ("llama.attention.head_count_kv", model["kv_heads"]),
        ("llama.attention.layer_norm_rms_epsilon", float(model.get("norm_eps", 1e-5))),
        ("llama.attention.key_length", model["head_dim"]),
        ("llama.attention.value_length", model["head_dim"]),
        ("llama.rope.dimension_count", model["head_dim"]),
        ("llama.rope.freq_base", float(model.get("rope_theta", 10000.0))),
        ("llama.vocab_size", model["vocab"]),
        ("tokenizer.ggml.model", "no_vocab"),
    ]


def tensors(model, dtype):
    """Names, sizes with the columns first, types."""
    hidden, ffn, dim = model["hidden"], model["ffn"], model["head_dim"]
    queries, keys = model["heads"] * dim, model["kv_heads"] * dim
    yield "token_embd.weight", (hidden, model["vocab"]), dtype
    for layer in range(model["layers"]):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", (hidden,), "f32"
        yield block + "attn_q.weight", (hidden, queries), dtype
        yield block + "attn_k.weight", (hidden, keys), dtype
        yield block + "attn_v.weight", (hidden, keys), dtype
        yield block + "attn_output.weight", (queries, hidden), dtype
        yield block + "ffn_norm.weight", (hidden,), "f32"
        yield block + "ffn_gate.weight", (hidden, ffn), dtype
        yield block + "ffn_up.weight", (hidden, ffn), dtype
        yield block + "ffn_down.weight", (ffn, hidden), dtype
    yield "output_norm.weight", (hidden,), "f32"
    if not model.get("tied"):
        yield "output.weight", (hidden, model["vocab"]), dtype


def size_of(dims, dtype):
    elements = 1
    for dim in dims:
        elements *= dim
    return elements * TYPES[dtype][1]


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def random_bytes(dtype):
    """About a megabyte of small normal values."""
    draw = random.Random(1)
    values = array.array("f", (0.02 * draw.gauss(0, 1) for _ in range(PERIOD)))
    if dtype == "f32":
        return values.tobytes() * 4
    bits = array.array("I", values.tobytes())
    return array.array("H", (bit >> 16 for bit in bits)).tobytes() * 8


def write(model, name, dtype, path):
    listed = list(tensors(model, dtype))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(metadata(model, name)))
    head += b"".join(entry(key, value) for key, value in metadata(model, name))
    offset = 0
    for tensor, dims, kind in listed:
        head += text(tensor) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        head += struct.pack("<IQ", TYPES[kind][0], offset)
        offset += padded(size_of(dims, kind))
    noise = random_bytes(dtype)
    ones = struct.pack("<f", 1.0)
    with open(path, "wb") as out:
        out.write(head + bytes(padded(len(head)) - len(head)))
        for _, dims, kind in listed:
            size = size_of(dims, kind)
            unit = ones * dims[0] if len(dims) == 1 else noise
            for at in range(0, size, len(unit)):
                out.write(unit[: min(len(unit), size - at)])
            out.write(bytes(padded(size) - size))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="of catalogue/models, or a .toml file with [model]")
    parser.add_argument("out")
    parser.add_argument("--dtype", choices=sorted(TYPES), default="bf16")
    args = parser.parse_args()
    write(read_shape(args.model), args.model, args.dtype, args.out)


if __name__ == "__main__":
    main()
