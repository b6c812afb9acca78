#!/usr/bin/env python3
"""Checks that docs/faults.md names the tests of every row of the matrix of faults, and all of them.

A row is "| 11 | what happens | `SuiteTest.Row11*`, ... |". Each of the rows 1 to 28 is there once and in
order, every test in it is one that some file declares, and every test whose name begins with "Row11" is
named in row 11 ("Row4And5" in rows 4 and 5). A row that nothing tests says "not yet".

Prints "file:line: message" per finding and exits 1 if there is any.
"""

import re
import sys

from checkers import errors_of, run_checker

PAGE = "docs/faults.md"
LAST = 28
ROW = re.compile(r"^\| (\d+) \|.*\| (.*) \|$")
NAME = re.compile(r"`([A-Za-z0-9]+)\.([A-Za-z0-9]+\*?|\*)`")
TEST = re.compile(r"\bTEST(?:_F|_P)?\((\w+), *(\w+)\)")
OF_ROWS = re.compile(r"^Row(\d+)(?:And(\d+))?")


def tests_of(root):
    """(suite, case) -> "file:line" of every test."""
    tests = {}
    for folder in ("src", "apps", "tests"):
        for path in sorted((root / folder).rglob("*_test.cc")):
            text = path.read_text(encoding="utf-8", errors="replace")
            for match in TEST.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                tests[match.groups()] = f"{path}:{line}"
    return tests


def is_named(test, names):
    suite, case = test
    return any(suite == s and (case.startswith(c[:-1]) if c.endswith("*") else case == c) for s, c in names)


def check(root):
    tests, errors, rows = tests_of(root), [], {}
    page = root / PAGE
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        match = ROW.match(line)
        if not match:
            continue
        row, names = int(match[1]), NAME.findall(match[2])
        where = f"{page}:{number}"
        if row != len(rows) + 1:
            errors.append(f"{where}: row {row}, where {len(rows) + 1} was expected")
        rows[row] = names
        if not names and match[2] != "not yet":
            errors.append(f"{where}: row {row} names no test")
        for name in names:
            if not any(is_named(test, [name]) for test in tests):
                errors.append(f"{where}: no test is called {'.'.join(name)}")
    if len(rows) != LAST:
        errors.append(f"{page}: it has {len(rows)} rows of faults, not {LAST}")
    for test, where in tests.items():
        match = OF_ROWS.match(test[1])
        for row in [int(text) for text in match.groups() if text] if match else []:
            if row in rows and not is_named(test, rows[row]):
                errors.append(f"{where}: row {row} of {PAGE} does not name {'.'.join(test)}")
    return errors


def self_test():
    """A small tree passes; each planted mistake is found."""
    def page(edit=lambda row, cell: cell):
        cells = [(row, "`ATest.Row1And2`" if row < 3 else "`ATest.Row*`" if row == 3 else "`BTest.*`")
                 for row in range(1, LAST + 1)]
        return "".join(f"| {row} | x | {edit(row, cell)} |\n" for row, cell in cells)

    test = "TEST_F(ATest, Row1And2) {}\nTEST(ATest, Row3OfAll) {}\nTEST(BTest, Any) {}\n"
    clean = {"tests/a_test.cc": test, PAGE: page(), "src/x": "", "apps/x": ""}
    planted = {
        "a test that is not there": {PAGE: page(lambda row, cell: "`CTest.*`" if row == 9 else cell)},
        "a row without a test": {PAGE: page(lambda row, cell: "later" if row == 9 else cell)},
        "a missing row": {PAGE: page().rsplit("| 28 |", 1)[0]},
        "a test that its row does not name": {"tests/a_test.cc": test + "TEST(BTest, Row2Too) {}\n"},
    }
    problems = [f"the clean tree: {error}" for error in errors_of(clean, check)]
    for what, files in planted.items():
        if len(errors_of({**clean, **files}, check)) != 1:
            problems.append(f"{what} was not found")
    return problems


if __name__ == "__main__":
    sys.exit(run_checker(__doc__, check, self_test))
