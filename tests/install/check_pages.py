#!/usr/bin/env python3
"""Usage: check_pages.py PROGRAM FOLDER: every command has a manual page with all its options.

FOLDER is the build's share/, which cmake/make_pages.cmake fills. What help prints is the measure.
"""

import gzip
import pathlib
import re
import shutil
import subprocess
import sys

COMMAND = re.compile(r"^  ([a-z][a-z0-9_-]*)(?:\s{2,}|$)")
FLAG = re.compile(r"^  (?:-\w, )?(--[a-z][a-z0-9-]*)")


def help_of(program, words):
    return subprocess.run([program, "help", *words], capture_output=True, text=True, check=True, timeout=60).stdout


def commands_in(text):
    if "\nCommands:\n" not in text:
        return []
    block = text.split("\nCommands:\n")[1].split("\n\n")[0]
    return [match.group(1) for match in map(COMMAND.match, block.splitlines()) if match]


def check(program, folder, words, errors):
    text = help_of(program, words)
    name = "-".join(["tessera", *words])
    path = folder / "man1" / f"{name}.1.gz"
    page = gzip.open(path, "rt", encoding="utf-8").read().replace("\\-", "-") if path.is_file() else ""
    if not page:
        errors.append(f"{name}: no manual page")
    for flag in filter(None, (FLAG.match(line) for line in text.splitlines())):
        if f"{flag.group(1)}" not in page:
            errors.append(f"{name}: its page lacks {flag.group(1)}")
    if page and shutil.which("groff"):
        said = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", "-K", "utf8"], input=page, text=True,
                              capture_output=True, timeout=60).stderr
        errors += [f"{name}: {line}" for line in said.splitlines()]
    count = 1
    for command in commands_in(text):
        count += check(program, folder, [*words, command], errors)
    return count


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    errors = []
    count = check(program, folder, [], errors)
    if "share/doc/tessera/examples" not in gzip.open(folder / "man1" / "tessera.1.gz", "rt", encoding="utf-8").read():
        errors.append("tessera: its page does not say where the examples are")
    pages = len(list((folder / "man1").glob("*.1.gz")))
    if pages != count:
        errors.append(f"{pages} pages for {count} commands")
    for path in ("bash/tessera", "zsh/_tessera", "fish/tessera.fish"):
        if "simulate" not in (folder / path).read_text(encoding="utf-8"):
            errors.append(f"{path}: no command simulate")
    print("\n".join(errors) if errors else f"{count} commands have their pages")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
