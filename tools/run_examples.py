#!/usr/bin/env python3
"""Runs the commands that a page shows, and puts what they print below them.

A command is the first line of a code block marked `console`, after "$ " (NAME=VALUE before it is put
into its environment). What follows in the block is its output:

  console            the whole output
  console excerpt    lines of it, in order; "..." stands for lines that are left out between them,
                     and inside a line for a part of it; what follows the last one is left out too
  console like       an excerpt whose numbers are free, for what depends on the machine (times, last
                     digits of floating-point sums): the words must be printed, and the block stays
  console recorded   not run, because it needs a GPU or minutes; the page says what was run where

`exit=2` behind any of them: the command ends with this exit code instead of 0, and its output is what
it prints and then what it says on standard error. A block that shows a command with its output and
is not marked is a mistake.

The commands of a page run in order in one folder, which sees examples/, tests/ and bench/ of this
checkout and is removed at the end: a block may use what an earlier one has made. A block marked with
a language and a name (`toml file=run.toml`) is that file.

With --check nothing is written, and the exit code is 1 where a page is out of date. --share N looks at every N-th command, another one
after every commit (TESSERA_ROTATION counts them), and at all where TESSERA_TEST_ALL is set; for pages whose commands need no earlier one.

    tools/run_examples.py build/bin/tessera docs/*.md README.md
"""
import argparse
import difflib
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
KIND = re.compile(r"console(?: (?P<part>excerpt|like|recorded))?(?: exit=(?P<code>\d+))?")
SHOWN_FILE = re.compile(r"\w+ file=([\w.-]+)")


class Stale(Exception):
    """A block that has no counterpart in what the command prints today, or that is no block."""


def split_command(command):
    """The arguments of a tessera command, and what goes into its environment."""
    words, settings = shlex.split(command), {}
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, value = words.pop(0).split("=", 1)
        settings[name] = value
    if not words or words[0] != "tessera":
        raise Stale(f"'{command}' is not a tessera command")
    return words[1:], settings


def output_of(binary, command, folder, code):
    """What a command prints; where an exit code is named, with what it says on standard error."""
    arguments, settings = split_command(command)
    done = subprocess.run([binary, *arguments], cwd=folder, env={**os.environ, **settings},
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != int(code or 0):
        raise Stale(f"'{command}' ended with {done.returncode} instead of {code or 0}\n{done.stderr}")
    text = done.stdout + done.stderr if code else done.stdout
    return [line.rstrip() for line in text.rstrip("\n").split("\n")]


def words_of(line):
    """What stays when numbers and the widths of columns change."""
    return re.sub(r"[\s-]+", " ", re.sub(r"[+-]?\d[\d,.]*(e[+-]?\d+)?", "#", line)).strip()


def fits(shown, printed, form):
    """Whether the two lines are equal in a form: `str`, or `words_of`; a gap fits anything."""
    pieces = (re.escape(form(piece)) for piece in shown.split(GAP))
    return re.fullmatch(".*".join(pieces), form(printed))


def places_of(shown, printed, forms_of):
    """Where each line of `shown` stands in `printed`, None for a gap; `forms_of` a line: how alike
    they must be, the best likeness first."""
    places, at, gap = [], 0, False
    for line in shown:
        if line.strip() == GAP:
            places.append(None)
            gap = True
            continue
        candidates = range(at, len(printed) if gap else min(at + 1, len(printed)))
        found = next((place for form in forms_of(line) for place in candidates
                      if fits(line, printed[place], form)), None)
        if found is None:
            where = "" if gap or at == 0 else f" right below '{printed[at - 1]}'"
            raise Stale(f"nothing is printed like '{line}'{where}")
        places.append(found)
        at, gap = found + 1, False
    return places


def excerpt_of(shown, printed):
    """The lines of `printed` that stand where those of `shown` did."""
    places = places_of(shown, printed, lambda line: (str,) if GAP in line else (str, words_of))
    return [line if place is None or GAP in line else printed[place]
            for line, place in zip(shown, places)]


def checked_like(shown, printed):
    places_of(shown, printed, lambda line: (words_of,))
    return shown


def block_of(binary, kind, lines, folder):
    """`lines`: the command and what is shown below it."""
    if not lines or not lines[0].startswith("$ "):
        raise Stale(f"a console block begins with no command: {lines[:1]}")
    if kind["part"] == "recorded":
        return lines
    printed = output_of(binary, lines[0][2:], folder, kind["code"])
    if kind["part"] == "excerpt":
        return [lines[0], *excerpt_of(lines[1:], printed)]
    if kind["part"] == "like":
        return [lines[0], *checked_like(lines[1:], printed)]
    return [lines[0], *printed]


def plain_block(kind, lines, folder):
    """A block without output: a file, for commands below it, or text."""
    if kind.startswith("console"):
        raise Stale(f"there is no block of kind '{kind}'")
    if any(re.match(r"\$ (?:[A-Z_]+=\S* )*tessera\b", line) for line in lines):
        raise Stale(f"'{lines[0]}' is a command with its output: mark the block as console")
    named = SHOWN_FILE.fullmatch(kind)
    if named:
        (folder / named[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


def share_of(shares):
    """Whether the n-th command of a page is looked at."""
    mine = int(os.environ.get("TESSERA_ROTATION") or 0) % shares
    return lambda number: "TESSERA_TEST_ALL" in os.environ or number % shares == mine


def rewritten(binary, lines, folder, wanted=lambda number: True):
    result, at, commands = [], 0, 0
    while at < len(lines):
        result.append(lines[at])
        at += 1
        if not result[-1].startswith(FENCE):
            continue
        marked = result[-1].removeprefix(FENCE)
        if FENCE not in lines[at:]:
            raise Stale("a block has no end")
        end = lines.index(FENCE, at)
        kind = KIND.fullmatch(marked)
        if kind:
            result += block_of(binary, kind, lines[at:end], folder) if wanted(commands) else lines[at:end]
            commands += 1
        else:
            result += plain_block(marked, lines[at:end], folder)
        result.append(FENCE)
        at = end + 1
    return result


def new_text(binary, text, wanted=lambda number: True):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for seen in SEEN:
            (folder / seen).symlink_to(ROOT / seen)
        return "\n".join(rewritten(binary, text.rstrip("\n").split("\n"), folder, wanted)) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="say which pages are out of date")
    parser.add_argument("--share", type=int, default=1, help="with --check: of so many commands one")
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    binary = options.binary.resolve()
    stale = 0
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        try:
            new = new_text(binary, text, share_of(options.share if options.check else 1))
        except Stale as error:
            print(f"{page}: {error}")
            stale += 1
            continue
        if new == text:
            continue
        stale += options.check
        if options.check:
            print(f"{page} is out of date: run tools/run_examples.py {options.binary} {page}")
            print("\n".join(difflib.unified_diff(text.split("\n"), new.split("\n"), "shown", "printed",
                                                 n=0, lineterm="")))
        else:
            page.write_text(new, encoding="utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
