#!/usr/bin/env python3
"""Checks what the documents say about the tree: links, paths and names in back-quotes.

  links        a relative link of any page leads to a file, and its #anchor to a heading there
  paths        `compile/step.cc`, `tools/lint.sh`, `step.cc`: the file exists, counted from the root,
               from src/, from apps/tessera/, from the page, or anywhere if it is a bare name
  names        `build_step`, `StepGraph`, `Executor::run`: a word of the sources, of a key or of a script
  tests        `SuiteTest.Case`: a suite, and a case of it, that some test declares
  page's tests `e2e FILE: NAME`, `unit FILE: NAME`: a file of web/e2e or of web/src has a test whose name begins so

CHANGELOG.md, docs/decisions and bench/results tell history: there only links are checked.
Prints "file:line: message" per finding and exits 1 if there is any.
"""

import pathlib
import re
import sys

from checkers import errors_of, run_checker

LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([^`]+)`")
SOURCE_SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".cmake", ".toml", ".txt", ".in", ".ts", ".mjs", ".svelte"}
FILE_SUFFIX = r"(?:h|cc|cu|cuh|py|sh|cmake|md)"
PATH = re.compile(rf"^[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*\.{FILE_SUFFIX}$")
FOLDER = re.compile(r"^(?:src|apps|tests|tools|bench|docs|catalogue|examples|cmake)(?:/[a-z0-9_-]+)+/?$")
NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*(?:\(\))?$")
TEST = re.compile(r"^([A-Z][A-Za-z0-9]*(?:Test|Suite|Plan|Class|Rules|Memory)?)\.([A-Z*][A-Za-z0-9*]*)$")
WEB_TEST = re.compile(r"^(e2e|unit) ([A-Za-z-]+): (.+)$")
WEB_FILES = {"e2e": ".e2e.mjs", "unit": ".test.ts"}
HISTORY = ("CHANGELOG.md", "docs/decisions/", "bench/results/")
LEFT_OUT = {"node_modules", "runs", "__pycache__"}


def files_of(root):
    found = []
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(".") for part in parts[:-1]) and parts[0] != ".ci"
        if hidden or any(part in LEFT_OUT or part.startswith("build") for part in parts[:-1]):
            continue
        if path.is_file():
            found.append(path)
    return found


def words_of(files):
    words = {path.stem for path in files}  # programs are called after their sources
    for path in files:
        if path.suffix in SOURCE_SUFFIXES or path.name in ("test", "demo", "run"):
            words.update(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", path.read_text(errors="replace")))
    return words


def anchors_of(path):
    anchors = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            title = re.sub(r"[`*]", "", line.lstrip("#").strip().lower())
            anchors.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return anchors


def looks_like_code(name):
    """A word of prose in back-quotes (a value, a unit, a column) is nobody's business."""
    bare = name.removesuffix("()")
    return "_" in bare or "::" in bare or bool(re.search(r"[a-z][A-Z]", bare))


class Page:
    def __init__(self, root, path, files, words, errors):
        self.root, self.path, self.words, self.errors = root, path, words, errors
        self.names = {file.name for file in files}
        self.files = files
        self.history = path.relative_to(root).as_posix().startswith(HISTORY)

    def check(self):
        in_block = False
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```"):
                in_block = not in_block
            if in_block:
                continue
            self.where = f"{self.path}:{number}"
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                self.check_link(target)
            if not self.history:
                for text in QUOTED.findall(line):
                    self.check_quoted(text)

    def error(self, message):
        self.errors.append(f"{self.where}: {message}")

    def check_link(self, target):
        if re.match(r"[a-z]+:", target):
            return
        name, _, anchor = target.partition("#")
        place = (self.path.parent / name).resolve() if name else self.path
        if not place.exists():
            self.error(f"link to '{target}', which is not there")
        elif anchor and place.suffix == ".md" and anchor not in anchors_of(place):
            self.error(f"link to '{target}': no heading there has that anchor")

    def check_quoted(self, text):
        if PATH.match(text) or FOLDER.match(text):
            self.check_path(text)
        elif WEB_TEST.match(text):
            self.check_web_test(*WEB_TEST.match(text).groups())
        elif TEST.match(text) and self.is_about_tests():
            suite, case = TEST.match(text).groups()
            for word in (suite, case):
                stem = word.rstrip("*")
                if stem and not any(known.startswith(stem) for known in self.words):
                    self.error(f"no test is called '{text}'")
        elif NAME.match(text) and looks_like_code(text):
            for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text):
                if word not in self.words:
                    self.error(f"'{text}' is no name of the sources")

    def is_about_tests(self):
        return self.path.name in ("architecture.md", "promises.md", "studio-criteria.md")

    def check_web_test(self, kind, file_name, name):
        """What stands between stars are pieces of a name that is put together."""
        found = [file for file in self.files if file.name == file_name + WEB_FILES[kind]]
        text = "".join(file.read_text(encoding="utf-8") for file in found).replace("\\'", "'")
        pieces = [piece.strip() for piece in name.split("*") if piece.strip()]
        if not all(piece in text for piece in pieces):
            self.error(f"no test of the page is called '{kind} {file_name}: {name}'")

    def check_path(self, text):
        places = (self.root, self.root / "src", self.root / "apps" / "tessera", self.path.parent)
        if any((place / text).exists() for place in places):
            return
        if "/" not in text and text in self.names:
            return
        self.error(f"'{text}' is not in the tree")


def check(root):
    errors = []
    files = files_of(root)
    words = words_of(files)
    for path in files:
        if path.suffix == ".md":
            Page(root, path, files, words, errors).check()
    return errors


def self_test():
    """A small tree passes; each planted mistake is found."""
    clean = {
        "src/base/step.cc": "void build_step() {}\n",
        "docs/a.md": "# A page\n[b](b.md#one-part), `base/step.cc`, `step.cc`, `build_step`, `auto`\n",
        "docs/b.md": "## One part\n",
        "docs/shown.md": "`e2e ring: ends equal`, `e2e ring: * has a table`, `unit ring: adds`\n",
        "web/e2e/ring.e2e.mjs": "name: 'ends equal, step by step', name: `${lesson} has a table`\n",
        "web/src/parts/ring.test.ts": "it('adds up', () => {})\n",
        "CHANGELOG.md": "`gone_name` was here\n",
    }
    planted = {"a link": "[b](c.md)\n", "an anchor": "[b](b.md#two)\n", "a path": "`base/gone.cc`\n",
               "a bare file": "`gone.cc`\n", "a name": "`build_gone`\n", "a folder": "`src/gone`\n",
               "a test of the page": "`e2e ring: ends early`\n", "a file of such tests": "`unit gone: adds`\n"}

    problems = [f"the clean tree: {error}" for error in errors_of(clean, check)]
    for what, text in planted.items():
        if len(errors_of({**clean, "docs/c2.md": text}, check)) != 1:
            problems.append(f"{what} that leads nowhere was not found")
    return problems


if __name__ == "__main__":
    sys.exit(run_checker(__doc__, check, self_test))
