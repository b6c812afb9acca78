"""For the self-tests of checkers: what they say about a small tree with a planted mistake."""

import pathlib
import tempfile


def errors_of(files, check):
    """`files`: texts by path; `check` takes the root of the tree that they make."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return check(root)
