#!/usr/bin/env python3
"""Fine-tunes tiny models here, hands them to transformers, and compares.

    tools/check_transformers.py build/bin/tessera MODELS [--steps 50] [--without-torch]

MODELS is a folder with one folder for each model (llama-gqa, qwen3, gpt2, mistral-window, mixtral), as
Hugging Face lays them out; tests/data/hf has such ones. Folders beside them whose names begin with
tokenizer- lend the models their tokenizers, one each. For every model:

  copied     `export-hf` of the folder as it is, in several files: every tensor byte for byte, the index,
             generation_config.json, the tokenizer's files
  trained    50 steps on one rank and on a second mesh, each exported: logits of transformers, in f32 with
             eager attention, against those of `tessera eval --ids --logits`
  tokens     AutoTokenizer of the exported folder against `tessera data tokens`

Prints a table and exits with 1 where anything differs. Without torch only the files are compared.
"""
import argparse
import array
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

MODELS = {"llama-gqa": "tp=2", "qwen3": "fsdp=2,zero=3", "gpt2": "tp=2", "mistral-window": "cp=2",
          "mixtral": "dp=2,zero=1"}
TOLERANCE = 1e-5
SEQUENCE = 16
TEXTS = ["The planner splits a model over many workers.", "naïve café — 東京 🙂",
         "def f(x):\n    return x * 2\n", "  two  spaces, it's 1234.5"]


class Table:
    def __init__(self):
        self.rows, self.failed = [], False

    def add(self, model, what, found, ok):
        self.rows.append((model, what, found, "ok" if ok else "DIFFERENT"))
        self.failed = self.failed or not ok
        print("  ".join(self.rows[-1]), flush=True)

    def text(self):
        rows = [("model", "what", "found", "result")] + self.rows
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                         for row in rows)


def read_safetensors(path):
    """Name -> (type, shape, bytes)."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (info["dtype"], info["shape"],
                   data[8 + length + info["data_offsets"][0]:8 + length + info["data_offsets"][1]])
            for name, info in header.items()}


def read_folder(folder):
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("model*.safetensors")):
        tensors.update(read_safetensors(path))
    return tensors


def floats(tensor):
    kind, _, data = tensor
    assert kind == "F32", kind
    return array.array("f", data)


def relative(mine, theirs):
    """The largest difference over the largest value; infinite where one is not finite."""
    largest = max(abs(x) for x in theirs)
    worst = max(abs(a - b) if a == a and b == b else float("inf") for a, b in zip(mine, theirs))
    return worst / largest if len(mine) == len(theirs) and largest > 0 else float("inf")


def write_megatron(prefix, documents):
    """Ids as Megatron keeps them: PREFIX.bin has 16-bit ids, PREFIX.idx where documents begin."""
    with open(f"{prefix}.bin", "wb") as out:
        for ids in documents:
            out.write(array.array("H", ids).tobytes())
    lengths = [len(ids) for ids in documents]
    pointers = [2 * sum(lengths[:i]) for i in range(len(lengths))]
    with open(f"{prefix}.idx", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        out.write(array.array("i", lengths).tobytes() + array.array("q", pointers).tobytes())
        out.write(array.array("q", range(len(lengths) + 1)).tobytes())


class Checker:
    def __init__(self, options, work):
        self.tessera = str(pathlib.Path(options.tessera).resolve())
        self.options, self.work, self.table = options, pathlib.Path(work), Table()

    def run(self, *words):
        done = subprocess.run([self.tessera, *map(str, words)], cwd=self.work, text=True,
                              capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"tessera {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    # A copy of the model with a tokenizer, if there is one to lend.
    def base(self, name, tokenizer):
        folder = self.work / name / "base"
        shutil.copytree(pathlib.Path(self.options.models) / name, folder)
        if tokenizer is None or (folder / "tokenizer.json").exists():
            return folder
        shutil.copy(tokenizer / "tokenizer.json", folder)
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
        return folder

    def check_copy(self, name, base):
        out = self.work / name / "copied"
        self.run("export-hf", base, out, "--shard-size", "40kB")
        mine, theirs = read_folder(out), read_safetensors(base / "model.safetensors")
        same = mine == theirs
        self.table.add(name, "copied: bytes of tensors", f"{len(mine)} of {len(theirs)}", same)
        files = sorted(path.name for path in out.glob("model*.safetensors"))
        if len(files) > 1:
            index = json.loads((out / "model.safetensors.index.json").read_text())
            holds = all(name in read_safetensors(out / file)
                        for name, file in index["weight_map"].items())
            total = sum(len(data) for _, _, data in theirs.values())
            self.table.add(name, "copied: index", f"{len(files)} files", holds
                           and set(index["weight_map"]) == set(theirs)
                           and index["metadata"]["total_size"] == total)
        generation = out / "generation_config.json"
        given = base / "generation_config.json"
        same = generation.exists() and (not given.exists() or json.loads(generation.read_text()) ==
                                        json.loads(given.read_text()))
        self.table.add(name, "copied: generation_config", "given" if given.exists() else "made", same)
        kept = [path.name for path in base.glob("tokenizer*.json")]
        same = all((out / one).exists() and (out / one).read_bytes() == (base / one).read_bytes()
                   for one in kept)
        self.table.add(name, "copied: tokenizer", f"{len(kept)} files", same)
        return out

    def train(self, name, base, mesh):
        config = json.loads((base / "config.json").read_text())
        text = (pathlib.Path(__file__).resolve().parent.parent / "README.md").read_bytes()
        ids = [byte % config["vocab_size"] for byte in text]
        place = self.work / name / f"mesh-{mesh}"
        place.mkdir(parents=True)
        write_megatron(place / "text", [ids[i:i + 500] for i in range(0, len(ids), 500)])
        (place / "run.toml").write_text(
            f'[model]\nhf = "{base}"\n[train]\nseq_len = {SEQUENCE}\nmicro_batch = 2\n'
            f'global_batch = 4\nsteps = {self.options.steps}\ndtype = "f32"\nthreads = 1\n'
            f'[optimizer]\nlr = 1e-3\n[data]\ntrain = "{place / "text"}"\n')
        self.run("train", place / "run.toml", "--threads", "--mesh", mesh, "--set",
                 f"logging.run_dir={place / 'run'}")
        out = place / "exported"
        self.run("export-hf", place / "run", out, "--shard-size", "40kB")
        before, after = read_safetensors(base / "model.safetensors"), read_folder(out)
        changed = sum(before[key][2] != after[key][2] for key in before if key in after)
        self.table.add(name, f"trained, {mesh}: names and shapes", f"{changed} tensors changed",
                       set(before) == set(after) and changed > 0
                       and all(before[key][:2] == after[key][:2] for key in before))
        return place

    def logits(self, model, name):
        vocab = json.loads((self.work / name / "base" / "config.json").read_text())["vocab_size"]
        ids = [[(7 * row + 13 * t * t + 5) % vocab for t in range(SEQUENCE)] for row in range(3)]
        (self.work / "ids.json").write_text(json.dumps(ids))
        (self.work / "logits.safetensors").unlink(missing_ok=True)
        self.run("eval", model, "--ids", "ids.json", "--logits", "logits.safetensors")
        return ids, floats(read_safetensors(self.work / "logits.safetensors")["logits"])

    def compare_logits(self, name, what, mine, theirs):
        error = relative(mine, theirs)
        self.table.add(name, what, f"{len(mine)} logits, {error:.1e}", error <= TOLERANCE)

    def check_transformers(self, name, what, folder, ids, mine):
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                     attn_implementation="eager").eval()
        GenerationConfig.from_pretrained(folder)
        with torch.no_grad():
            theirs = model(torch.tensor(ids)).logits.float().flatten().tolist()
        self.compare_logits(name, f"{what}: transformers", mine, theirs)

    def check_tokenizer(self, name, folder):
        from transformers import AutoTokenizer
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ours = [json.loads(self.run("data", "tokens", text, "--tokenizer", folder, "--json"))["ids"]
                for text in TEXTS]
        theirs = [tokenizer(text)["input_ids"] for text in TEXTS]
        self.table.add(name, "tokens: AutoTokenizer", f"{sum(map(len, ours))} ids", ours == theirs)

    def check(self, name, tokenizer):
        base = self.base(name, tokenizer)
        copied = self.check_copy(name, base)
        ids, mine = self.logits(base, name)
        if not self.options.without_torch:
            self.check_transformers(name, "copied", copied, ids, mine)
        for mesh in ["dp=1", MODELS.get(name, "dp=2")]:
            place = self.train(name, base, mesh)
            ids, of_run = self.logits(place / "run", name)
            _, of_export = self.logits(place / "exported", name)
            self.compare_logits(name, f"trained, {mesh}: run and export", of_export, of_run)
            moved = relative(of_run, mine)
            self.table.add(name, f"trained, {mesh}: it learned", f"logits moved {moved:.1e}",
                           moved > 100 * TOLERANCE)
            if not self.options.without_torch:
                self.check_transformers(name, f"trained, {mesh}", place / "exported", ids, of_run)
        if not self.options.without_torch and (base / "tokenizer.json").exists():
            self.check_tokenizer(name, place / "exported")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tessera")
    parser.add_argument("models")
    parser.add_argument("--only", help="names of models, with commas between")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--without-torch", action="store_true")
    options = parser.parse_args()
    folder = pathlib.Path(options.models).resolve()
    options.models = folder
    names = options.only.split(",") if options.only else list(MODELS)
    lent = sorted(folder.glob("tokenizer-*"))
    with tempfile.TemporaryDirectory() as work:
        checker = Checker(options, work)
        for i, name in enumerate(names):
            try:
                checker.check(name, lent[i % len(lent)] if lent else None)
            except Exception as error:  # one model must not hide the others
                checker.table.add(name, "all of it", f"{type(error).__name__}: {error}", False)
        print("\n" + checker.table.text())
    sys.exit(1 if checker.table.failed else 0)


if __name__ == "__main__":
    main()
