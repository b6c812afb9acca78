#!/usr/bin/env python3
"""Usage: run_notebook.py NOTEBOOK: runs its code cells in order, without jupyter.

Prints what each would show, as text. Exits 1 at the first cell that raises, with its number.
"""

import ast
import json
import pathlib
import sys
import traceback


def run_cell(source, number, names):
    """Runs the statements; the value of a last expression is shown."""
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if last is None:
        return
    value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    for show in ("_repr_svg_", "_repr_html_"):
        picture = getattr(value, show, lambda: None)()
        if picture is not None and not picture.rstrip().endswith(">"):
            raise ValueError(f"{show} is no picture: {picture[:80]!r}")
    print(value if not hasattr(value, "_repr_svg_") else f"{type(value).__name__}: a picture")


def main():
    notebook = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    names = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        try:
            run_cell("".join(cell["source"]), number, names)
        except Exception:
            traceback.print_exc()
            print(f"{sys.argv[1]}: code cell {number} failed:\n{''.join(cell['source'])}", file=sys.stderr)
            return 1
    print(f"{len(cells)} cells ran")
    return 0 if cells else 1


if __name__ == "__main__":
    sys.exit(main())
