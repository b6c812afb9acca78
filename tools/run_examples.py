#!/usr/bin/env python3
"""Runs the commands that a page shows, and puts what they print below them.

A command is the first line of a code block marked `console`, after "$ ". What follows in the block
is its output. With --check nothing is written, and the exit code is 1 where a page is out of date.

    tools/run_examples.py build/bin/tessera docs/search.md
"""
import argparse
import pathlib
import shlex
import subprocess
import sys
import tempfile

FENCE = "```"


def output_of(binary, command):
    words = shlex.split(command)
    if words[0] != "tessera":
        sys.exit(f"run_examples: '{command}' is not a tessera command")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([binary, *words[1:]], cwd=folder, capture_output=True, text=True,
                              timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"run_examples: '{command}' ended with {done.returncode}\n{done.stderr}")
    return [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]


def rewritten(binary, lines):
    result = []
    at = 0
    while at < len(lines):
        result.append(lines[at])
        at += 1
        if result[-1] != FENCE + "console":
            continue
        if not lines[at].startswith("$ "):
            sys.exit(f"run_examples: line {at + 1} is no command: {lines[at]}")
        result += [lines[at], *output_of(binary, lines[at][2:])]
        while lines[at] != FENCE:
            at += 1
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
        new = "\n".join(rewritten(binary, text.rstrip("\n").split("\n"))) + "\n"
        if new == text:
            continue
        stale += 1
        if options.check:
            print(f"{page} is out of date: run tools/run_examples.py {options.binary} {page}")
        else:
            page.write_text(new, encoding="utf-8")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
