"""What the functions give: dicts and tables that a notebook can show."""

import html
import json
import math
import pathlib

from tessera import pictures


class Refusal(Exception):
    """What cannot be answered. `exit_code` is the one of the command: 2 for a mistake in the request."""

    def __init__(self, message, exit_code):
        super().__init__(message)
        self.exit_code = exit_code


def _gib(count):
    return f"{count / 2**30:.1f} GiB"


def _summary(kind, answer):
    """One line about an answer."""
    if kind == "plan":
        fits = "fits" if answer.get("fits") else "does not fit"
        line = f"plan of {answer['parameters']:,} parameters on {answer['world']:,} ranks"
        if "peak_bytes" in answer:
            line += f": {_gib(answer['peak_bytes'])} of {_gib(answer['limit_bytes'])} on the fullest, {fits}"
        if "time" in answer:
            line += f"; {answer['time']['step_s']:.3f} s a step, MFU {100 * answer['rates']['mfu']:.1f} %"
        return line
    if kind == "simulate" and "step_s" in answer:
        return f"simulation of {answer['world']:,} ranks: {answer['step_s']:.4f} s a step"
    if kind == "simulate":
        return f"schedule {answer['schedule']}: bubble {100 * answer['bubble']:.1f} %"
    if kind == "search":
        best = answer["plans"][0]["time"]["step_s"] if answer.get("plans") else None
        found = "nothing fits" if best is None else f"the best takes {best:.3f} s a step"
        return f"search of {answer['configurations']:,} configurations: {found}"
    if kind == "explain":
        results = [f"  {r['what']}: {r['text']}" for r in answer["results"].values()]
        return "\n".join([answer["title"], *results])
    return f"{kind}: {', '.join(answer)}"


def _places_of(name, answer, path=""):
    """Where deeper in an answer a key is: "['time']['step_s']"."""
    for key, value in answer.items():
        place = f"{path}[{key!r}]"
        if path and key == name:
            yield place
        if isinstance(value, dict):
            yield from _places_of(name, value, place)


class Answer(dict):
    """The JSON of a command; prints as what it says in short."""

    def __init__(self, kind, answer):
        super().__init__(answer)
        self._kind = kind

    def __missing__(self, name):
        places = ", ".join(_places_of(name, self)) or "none of that name"
        raise KeyError(f"no {name!r} at the top: there is {places}")

    def __repr__(self):
        return f"<{_summary(self._kind, self)}>"

    def __reduce__(self):
        return Answer, (self._kind, dict(self))

    def value(self, name):
        """A number that explain() found, without its unit and its formula."""
        results = self.get("results", {})
        if name not in results:
            raise KeyError(f"no result {name!r}: there are {', '.join(results) or 'none'}")
        return results[name]["value"]


class Drawn(Answer):
    """An answer that has a picture."""

    def __init__(self, kind, answer, draw):
        super().__init__(kind, answer)
        self._draw = draw

    def svg(self):
        return self._draw()

    def _repr_svg_(self):
        if self.get("simulated_by") == "stages" and "pipeline" not in self:
            return None  # there is nothing to draw: a notebook shows the text
        return self.svg()


class Table(list):
    """Rows as dicts."""

    def columns(self):
        return list(dict.fromkeys(key for row in self for key in row))

    def column(self, name):
        """The values of one column; None where a row has none."""
        if self and name not in self.columns():
            raise KeyError(f"no column {name!r}: there are {', '.join(self.columns())}")
        return [row.get(name) for row in self]

    def _cells(self):
        names = self.columns()
        return [names] + [[_short(row.get(name)) for name in names] for row in self]

    def __repr__(self):
        if not self:
            return "<an empty table>"
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in cells)

    def _repr_html_(self):
        head, *rows = self._cells() if self else [[]]
        line = lambda tag, row: "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in row) + "</tr>"
        return "<table>" + line("th", head) + "".join(line("td", row) for row in rows) + "</table>"


def _short(value):
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _finite(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def _row(path, number, line):
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        raise Refusal(f"{path}: line {number} is not JSON: {line[:40]!r}", 1) from None


class Run:
    """A run directory, read anew whenever something is asked: a run that goes on can be watched."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if not (self.folder / "resolved.json").is_file():
            raise Refusal(f"'{folder}' is no run directory: it has no resolved.json; "
                          "'tessera train' writes one", 2)

    def _json(self, name):
        path = self.folder / name
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    @property
    def config(self):
        """Every key of the run, as resolved."""
        return self._json("resolved.json")

    @property
    def plan(self):
        plan = self._json("plan.json")
        return plan and Answer("plan", plan)

    @property
    def summary(self):
        """What was measured; None while the run goes on."""
        summary = self._json("summary.json")
        return summary and Answer("train", summary)

    @property
    def metrics(self):
        """A row for every line of metrics.jsonl that is complete."""
        path = self.folder / "metrics.jsonl"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return Table(_row(path, number, line) for number, line in enumerate(text.split("\n")[:-1], 1)
                     if line.strip())

    def __repr__(self):
        rows = self.metrics
        if not rows:
            return f"<run {self.folder}: no step yet>"
        return f"<run {self.folder}: step {rows[-1]['step']}, loss {_short(rows[-1].get('loss'))}>"

    def _repr_svg_(self):
        points = [(row["step"], row["loss"]) for row in self.metrics if _finite(row.get("loss"))]
        return pictures.lines({"loss": points}, title=f"{self.folder.name}: loss", x="step", y="loss")
