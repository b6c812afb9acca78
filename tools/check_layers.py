#!/usr/bin/env python3
"""Checks every #include and every link line against the folder table, tools/layers.txt.

A file is ruled by the longest row that its folder begins with, or, if it is a header, by the row
"FOLDER/*.h" of its folder where there is one; a row names only rows above it, so the table has no
cycle. The name of another folder of src/ means all that is in it; inside one folder
of src/ every row stands for itself. Tests, and what lies in testing/, see the whole of their folder
of src/. src/CMakeLists.txt must link what the rows allow and nothing else. apps/, tests/ and bench/
may include any folder of src/, and files beside themselves. A header that cmake writes counts as one
of src/: its template is cmake/NAME.in, and CMakeLists.txt says in which folder it appears.

Prints "file:line: message" per violation and exits 1 if there is any.
"""

import pathlib
import re
import sys

from checkers import errors_of, run_checker

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
LIBRARY = re.compile(r'^\s*tessera_(library|part)\(\s*(\w+)\s+(\S+)\s*([^)]*)\)')


def read_table(path, errors):
    rows = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, _, allowed = line.partition(":")
        for name in allowed.split():
            if name not in rows and not any(row.startswith(name + "/") for row in rows):
                errors.append(f"{path}:{number}: '{folder}' names '{name}', which is not a row above it")
        rows[folder] = set(allowed.split())
    return rows


def is_header(root, name):
    """Whether src/ has it, or cmake writes it."""
    if (root / "src" / name).is_file():
        return True
    template = root / "cmake" / f"{pathlib.PurePosixPath(name).name}.in"
    return template.is_file() and f"${{TESSERA_GENERATED}}/{name}" in (root / "CMakeLists.txt").read_text()


def includes(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def sources(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cc", ".cu", ".cuh"))


def top(name):
    return name.split("/")[0]


def row_of(file, rows):
    """The row that rules `file`, a path below src/, or None."""
    file = pathlib.PurePosixPath(file)
    headers = f"{file.parent}/*.h"
    if file.suffix == ".h" and headers in rows:
        return headers
    parts = file.parent.as_posix().split("/")
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in rows:
            return name
    # Files right in a folder whose sub-folders have rows: support of its tests, if any.
    return parts[0] if any(top(row) == parts[0] for row in rows) else None


def tops_of(rows):
    """Per folder of src/, which others its rows name together, or which sub-folders of others."""
    tops = {}
    for row, allowed in rows.items():
        tops.setdefault(top(row), set()).update(name for name in allowed if top(name) != top(row))
    return tops


def may_include(path, row, target, rows, tops):
    """Whether a file ruled by `row` may include one of the row `target`."""
    if top(row) != top(target):
        named = tops[top(row)] if is_test(path) else rows.get(row, ())
        return top(target) in named or target in named
    return row == target or target in rows.get(row, ()) or is_test(path)


def is_test(path):
    return path.name.endswith("_test.cc") or "testing" in path.parts


def check_src(root, rows, errors):
    src = root / "src"
    tops = tops_of(rows)
    for path in sources(src):
        file = path.relative_to(src)
        row = row_of(file, rows)
        if row is None:
            errors.append(f"{path}:1: folder '{file.parent}' has no row in tools/layers.txt")
            continue
        for number, name in includes(path):
            target = row_of(name, rows)
            if "/" not in name or target is None:
                errors.append(f'{path}:{number}: "{name}" does not start with a folder of src/')
            elif not may_include(path, row, target, rows, tops):
                allowed = ", ".join(sorted(rows.get(row, set()) | {row}))
                errors.append(f'{path}:{number}: "{name}": {row} may include {allowed}')
            elif "testing" in name.split("/") and not is_test(path):
                errors.append(f'{path}:{number}: "{name}" is for tests')
            elif not is_header(root, name):
                errors.append(f'{path}:{number}: "{name}" does not exist under src/')


def check_users(root, errors):
    """Programs see all of src/, plus headers of their own top folder."""
    tops = [root / "tests", root / "bench"]
    tops += [p for p in (root / "apps").glob("*") if p.is_dir()]
    for top in tops:
        for path in sources(top):
            for number, name in includes(path):
                places = (top / name, path.parent / name)
                if not is_header(root, name) and not any(place.is_file() for place in places):
                    where = top.relative_to(root)
                    errors.append(f'{path}:{number}: "{name}" is neither under src/ nor {where}/')


def reachable(folder, links):
    seen, queue = set(), list(links.get(folder, ()))
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            queue += links.get(name, ())
    return seen


def check_links(root, rows, errors):
    path = root / "src" / "CMakeLists.txt"
    tops = tops_of(rows)
    found = []  # of each line: number, whether it is a part, name, folder, what it links
    folders = {}  # by library
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = LIBRARY.match(line)
        if not match:
            continue
        kind, name, folder, rest = match.groups()
        linked = [word[len("tessera_"):] for word in rest.split() if word.startswith("tessera_")]
        found.append((number, kind == "part", name, folder, linked))
        folders[name] = folder
    links, lines = {}, {}
    for number, is_part, name, folder, linked in found:
        # tessera_blas and the like wrap libraries, not folders.
        links[folder] = {folders[other] for other in linked if other in folders}
        lines[folder] = number
        if folder not in (rows if is_part else tops):
            errors.append(f"{path}:{number}: '{folder}' has no row in tools/layers.txt")
        elif not is_part and name != folder:
            errors.append(f"{path}:{number}: library '{name}' is built from folder '{folder}'")
    for folder in tops.keys() - links.keys():
        errors.append(f"{path}:1: no tessera_library line for '{folder}'")
    for folder, number in lines.items():
        # Headers are compiled with whoever includes them, and a part holds its sub-folders.
        named = {name for name in (tops if folder in tops else rows).get(folder, ())
                 if not name.endswith("*.h") and not name.startswith(f"{folder}/")}
        for other in sorted(links[folder] - named):
            if top(other) != folder:
                errors.append(f"{path}:{number}: {folder} links {other}; its row allows: "
                              + (", ".join(sorted(named)) or "nothing"))
        for lacking in sorted(named - reachable(folder, links)):
            errors.append(f"{path}:{number}: {folder} may include {lacking} but does not link it")


def check(root):
    errors = []
    rows = read_table(root / "tools" / "layers.txt", errors)
    check_src(root, rows, errors)
    check_users(root, errors)
    check_links(root, rows, errors)
    return errors


def self_test():
    """A small tree passes; each planted violation is found in its file, alone."""
    clean = {
        "tools/layers.txt": "base:\nspec/low: base\nspec: spec/low base\n"
                            "train/*.h: spec base\ntrain/part: base\ndraw: train/part spec base\n"
                            "train/deep: train/*.h spec base\n"
                            "train: train/deep train/part train/*.h spec base\n",
        "src/CMakeLists.txt": "tessera_library(base base)\ntessera_library(spec spec tessera_base)\n"
                              "tessera_part(part train/part tessera_base)\n"
                              "tessera_library(draw draw tessera_part tessera_spec)\n"
                              "tessera_library(train train tessera_spec tessera_part tessera_blas)\n",
        "CMakeLists.txt": "write(${TESSERA_GENERATED}/spec/rows.h)\n",
        "cmake/rows.h.in": "\n",
        "src/base/a.h": "#include <vector>\n",
        "src/spec/b.h": '#include "base/a.h"\n#include "spec/low/l.h"\n#include "spec/rows.h"\n',
        "src/spec/low/l.h": '#include "base/a.h"\n',
        "src/spec/low/l_test.cc": '#include "spec/b.h"\n#include "spec/testing/t.h"\n',
        "src/spec/testing/t.h": '#include "spec/b.h"\n',
        "src/train/c.cc": '#include "spec/b.h"\n#include "train/c.h"\n',
        "src/train/c.h": "#pragma once\n",
        "src/train/deep/d.h": '#include "train/c.h"\n',
        "src/train/part/p.h": '#include "base/a.h"\n',
        "src/draw/d.cc": '#include "train/part/p.h"\n',
        "src/train/e.cc": '#include "train/deep/d.h"\n',
        "apps/tool/main.cc": '#include "tool.h"\n#include "train/c.h"\n',
        "apps/tool/tool.h": "\n",
        "tests/x_test.cc": '#include "base/a.h"\n',
        "bench/x_bench.cc": '#include "base/a.h"\n',
    }
    planted = {
        "src/base/a.h": '#include "spec/b.h"\n',
        "src/spec/b.h": '#include "train/c.h"\n',
        "src/spec/low/l.h": '#include "spec/b.h"\n',
        "src/spec/low/l_test.cc": '#include "train/c.h"\n',
        "src/spec/low/n.h": '#include "spec/low/rows.h"\n',
        "src/spec/low/m.h": '#include "spec/testing/t.h"\n',
        "src/train/c.h": '#include "c.cc"\n',
        "src/train/c.cc": '#include "spec/gone.h"\n',
        "src/train/f.h": '#include "train/deep/d.h"\n',
        "src/draw/d.cc": '#include "train/c.h"\n',
        "src/train/part/p.h": '#include "train/c.h"\n',
        "src/other/d.h": "\n",
        "apps/tool/main.cc": '#include "nowhere/x.h"\n',
        "tests/x_test.cc": '#include "base/gone.h"\n',
        "src/CMakeLists.txt": clean["src/CMakeLists.txt"].replace("base base", "base base tessera_spec"),
        "tools/layers.txt": clean["tools/layers.txt"].replace("base:", "base: spec", 1),
    }

    problems = [f"the clean tree: {error}" for error in errors_of(clean, check)]
    for name, text in planted.items():
        if not any(name in error for error in errors_of({**clean, name: text}, check)):
            problems.append(f"a violation planted in {name} was not found")
    for linked, missing in (("spec spec tessera_base", "spec spec"), ("draw draw tessera_part", "draw draw"),
                            ("train/part tessera_base", "train/part")):
        lines = clean["src/CMakeLists.txt"].replace(linked, missing)
        if not errors_of({**clean, "src/CMakeLists.txt": lines}, check):
            problems.append(f"a missing link of '{missing}' was not found")
    return problems


if __name__ == "__main__":
    sys.exit(run_checker(__doc__, check, self_test))
