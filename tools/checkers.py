"""What the checkers of the tree share: their command line, and a small tree for their self-tests."""

import argparse
import pathlib
import tempfile


def run_checker(description, check, self_test):
    """Prints the errors of the tree that this file lies in, and returns the exit status."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--self-test", action="store_true", help="prove that mistakes are found")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    errors = self_test() if options.self_test else check(root)
    for error in errors:
        print(error.replace(f"{root}/", ""))
    return 1 if errors else 0


def errors_of(files, check):
    """What `check` says about a tree of `files`: texts by path, one with a planted mistake."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return check(root)
