#!/usr/bin/env python3
"""Puts what examples/docs.toml has learned into docs/learning.md.

    tools/learning_page.py build/bin/tessera [--train] [--set KEY=VALUE] [--remark TEXT] [--curves curves.csv]

Reads runs/docs; with --train it makes data and run first (ten minutes on two cores), with the commands that
stand in examples/docs.toml. Writes the parts of the page between its marks, and docs/pictures/learning.svg.
--curves adds what bench/compare_learning.py found.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "learning.md"
PICTURE = ROOT / "docs" / "pictures" / "learning.svg"
PROMPTS = ["A rank", "// The ", "Once upon a time"]


def commands():
    """Those in the head of the run file, up to the training."""
    lines = re.findall(r"^#   (.+)$", (ROOT / "examples" / "docs.toml").read_text(), re.M)
    return [line for line in lines if not line.startswith("tessera generate")]


def train(tessera, settings):
    shutil.rmtree(ROOT / "runs" / "docs-data", ignore_errors=True)
    shutil.rmtree(ROOT / "runs" / "docs", ignore_errors=True)
    more = "".join(f" --set {setting}" for setting in settings)
    script = "\n".join(["set -e", *commands()]) + more
    path = f"{pathlib.Path(tessera).resolve().parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", script], check=True, cwd=ROOT, env={**os.environ, "PATH": path})


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---:|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def learned(run, settings, remark):
    lines = [json.loads(line) for line in open(run / "metrics.jsonl")]
    measured = [line for line in lines if "valid" in line]
    sets = [key[:-len(".perplexity")] for key in measured[0]["valid"] if key.endswith(".perplexity")]
    rows = [[f"{line['step']:,}", f"{line['tokens']:,}", f"{line['loss']:.3f}",
             *(f"{line['valid'][name + '.perplexity']:.1f}" for name in sets),
             f"{line['valid_perplexity']:.1f}"] for line in measured]
    summary = json.loads((run / "summary.json").read_text())
    resolved = json.loads((run / "resolved.json").read_text())
    ranks, threads = len(summary["ranks"]), resolved["train"]["threads"]
    said = (f"{summary['steps']:,} steps on {ranks} ranks of {threads} thread{'s' if threads != 1 else ''} "
            f"took {summary['seconds'] / 60:.1f} minutes ({summary['tokens_per_s']:,.0f} tokens/s), evaluations "
            f"included. A model that knows nothing has a perplexity of {resolved['model']['vocab']:,}.")
    if settings:
        said += f" This run had `{' '.join('--set ' + setting for setting in settings)}`."
    if remark:
        said += " " + remark
    return said + "\n\n" + table(["step", "tokens", "loss", *sets, "all"], rows)


def spoken(tessera):
    blocks = []
    for prompt in PROMPTS:
        words = ["generate", "--run", "runs/docs", "--prompt", prompt, "--tokens", "60", "--temperature", "0.7",
                 "--seed", "1"]
        text = subprocess.run([tessera, *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        shown = " ".join(f'"{word}"' if " " in word else word for word in words)
        blocks.append(f"```console recorded\n$ tessera {shown}\n{text.rstrip()}\n```")
    return "\n\n".join(blocks)


def beside_pytorch(path):
    rows = list(csv.DictReader(open(path)))
    shown = [row for row in rows if int(row["step"]) == 1 or int(row["step"]) % 100 == 0 or row is rows[-1]]
    worst = max(abs(float(row["tessera_smoothed"]) - float(row["pytorch_smoothed"])) for row in rows)
    body = [[row["step"], f"{float(row['tessera']):.4f}", f"{float(row['pytorch']):.4f}",
             f"{float(row['tessera']) - float(row['pytorch']):+.4f}"] for row in shown]
    return (f"Over {len(rows):,} steps the smoothed curves are never further apart than {worst:.4f}.\n\n" +
            table(["step", "Tessera", "PyTorch", "difference"], body))


def put(page, name, text):
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tessera")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="a setting for the run, as of tessera")
    parser.add_argument("--curves")
    parser.add_argument("--remark", default="", help="a sentence on the run, such as what else the machine did")
    options = parser.parse_args()
    tessera = str(pathlib.Path(options.tessera).resolve())
    if options.train:
        train(tessera, options.set)
    page = PAGE.read_text()
    if options.curves:
        page = put(page, "pytorch", beside_pytorch(options.curves))
    if (ROOT / "runs" / "docs" / "summary.json").exists():
        page = put(page, "learned", learned(ROOT / "runs" / "docs", options.set, options.remark))
        page = put(page, "spoken", spoken(tessera))
        subprocess.run([tessera, "metrics", "runs/docs", "--smooth", "0.9", "--svg", PICTURE], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
