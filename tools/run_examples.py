#!/usr/bin/env python3
"""Runs the commands that a page shows, and puts what they print below them.

A command is the first line of a code block marked `console`, after "$ ". What follows in the block
is its output:

  console            the whole output
  console excerpt    lines of it, in order; "..." stands for any that are left out
  console exit=2     a command that ends with this code: what it prints, and then what it says on
                     standard error; NAME=VALUE before it is put in its environment

Commands of the last kind see the files that the page shows above them, in blocks marked with a
language and a name: `toml file=run.toml`.

With --check nothing is written, and the exit code is 1 where a page is out of date. Commands run in
an empty folder that sees examples/, tests/ and bench/ of this checkout.

    tools/run_examples.py build/bin/tessera docs/search.md README.md
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FENCE = "```"
ROOT = pathlib.Path(__file__).resolve().parent.parent
SEEN = ("examples", "tests", "bench")
GAP = "..."


class Stale(Exception):
    """An excerpt that has no counterpart in what the command prints today."""


def output_of(binary, command):
    words = shlex.split(command)
    if words[0] != "tessera":
        sys.exit(f"run_examples: '{command}' is not a tessera command")
    with tempfile.TemporaryDirectory() as folder:
        for name in SEEN:
            (pathlib.Path(folder) / name).symlink_to(ROOT / name)
        done = subprocess.run([binary, *words[1:]], cwd=folder, capture_output=True, text=True,
                              timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"run_examples: '{command}' ended with {done.returncode}\n{done.stderr}")
    return [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]


def files_shown(lines):
    """The files that a page shows: texts by name."""
    files, at = {}, 0
    while at < len(lines):
        name = re.fullmatch(FENCE + r"\w+ file=([\w.-]+)", lines[at])
        at += 1
        if name:
            end = lines.index(FENCE, at)
            files[name[1]] = "\n".join(lines[at:end]) + "\n"
            at = end
    return files


def failing_block_of(binary, code, lines, page_above):
    """A command that has to end with `code`, and all that it prints."""
    words = shlex.split(lines[0].removeprefix("$ "))
    environment = dict(os.environ)
    while re.match(r"[A-Z_]+=", words[0]):
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    if words[0] != "tessera":
        sys.exit(f"run_examples: '{lines[0]}' is not a tessera command")
    with tempfile.TemporaryDirectory() as folder:
        for name in SEEN:
            (pathlib.Path(folder) / name).symlink_to(ROOT / name)
        for name, text in files_shown(page_above).items():
            (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
        done = subprocess.run([binary, *words[1:]], cwd=folder, env=environment, capture_output=True,
                              text=True, timeout=300, check=False)
    if done.returncode != code:
        sys.exit(f"run_examples: '{lines[0]}' ended with {done.returncode}, not {code}\n{done.stderr}")
    printed = (done.stdout + done.stderr).rstrip("\n").split("\n")
    return [lines[0], *(line.rstrip() for line in printed)]


def words_of(line):
    """What stays when numbers and the widths of columns change."""
    return re.sub(r"[\s-]+", " ", re.sub(r"[+-]?\d[\d,.]*(e[+-]?\d+)?", "#", line)).strip()


def excerpt_of(shown, printed):
    """The lines of `printed` that stand where those of `shown` did."""
    result, at = [], 0
    for line in shown:
        if line == GAP:
            result.append(line)
            continue
        while at < len(printed) and words_of(printed[at]) != words_of(line):
            at += 1
        if at == len(printed):
            raise Stale(f"nothing is printed like '{line}'")
        result.append(printed[at])
        at += 1
    return result


def block_of(binary, kind, lines):
    """`lines`: the command and what is shown below it."""
    if not lines or not lines[0].startswith("$ "):
        sys.exit(f"run_examples: a console block begins with no command: {lines[:1]}")
    printed = output_of(binary, lines[0][2:])
    if kind == "console":
        return [lines[0], *printed]
    return [lines[0], *excerpt_of(lines[1:], printed)]


def rewritten(binary, lines):
    result, at = [], 0
    while at < len(lines):
        result.append(lines[at])
        kind = lines[at].removeprefix(FENCE)
        at += 1
        if kind.startswith("console exit="):
            end = lines.index(FENCE, at)
            code = int(kind.removeprefix("console exit="))
            result += failing_block_of(binary, code, lines[at:end], lines[:at])
            at = end
            continue
        if kind not in ("console", "console excerpt"):
            continue
        end = lines.index(FENCE, at)
        result += block_of(binary, kind, lines[at:end])
        at = end
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="say which pages are out of date")
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    binary = options.binary.resolve()
    stale = 0
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        try:
            new = "\n".join(rewritten(binary, text.rstrip("\n").split("\n"))) + "\n"
        except Stale as error:
            print(f"{page}: {error}")
            stale += 1
            continue
        if new == text:
            continue
        stale += options.check
        if options.check:
            print(f"{page} is out of date: run tools/run_examples.py {options.binary} {page}")
        else:
            page.write_text(new, encoding="utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
