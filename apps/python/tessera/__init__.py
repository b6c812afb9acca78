"""Plans, simulates, searches and trains transformers over many ranks.

    import tessera
    plan = tessera.plan(model="llama-3-405b", cluster="h100-16384", tp=8, pp=16, zero=1)
    plan["peak_bytes"]

Requests have the keys that docs/api.md names; answers are dicts, equal to what the commands print
with --json. A notebook draws plans, simulations and runs.
"""

import json
import os

from tessera import _tessera
from tessera.answers import Answer, Drawn, Refusal, Run, Table

__all__ = ["Answer", "Refusal", "Run", "Table", "emit", "explain", "plan", "presets", "run", "search",
           "simulate", "train", "vary"]

_tessera.raise_refusals(Refusal)


def _request(run_file, keys):
    if isinstance(run_file, dict):  # a whole request
        return {**run_file, **keys}
    return keys if run_file is None else {"run_file": str(run_file), **keys}


def _plain(value):
    """Numbers of numpy and paths, which json does not know."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is a {type(value).__name__}: use a number, a text, or a list of them")


def _json(request):
    for key, value in request.items():
        try:
            json.dumps(value, allow_nan=False, default=_plain)
        except ValueError:
            raise Refusal(f"{key} is {value!r}: expected finite numbers", 2) from None
        except TypeError as error:
            raise Refusal(f"{key}: {error}", 2) from None
    return json.dumps(request, default=_plain)


def _drawn(method, request):
    text = _json(request)
    return Drawn(method, json.loads(_tessera.ask(method, text)), lambda: _tessera.picture(method, text))


def plan(run_file=None, **keys):
    """Memory and traffic of every rank and the time of a step, without running it."""
    return _drawn("plan", _request(run_file, keys))


def simulate(run_file=None, **keys):
    """What every rank does when in a step; with schedule_only=True, the pipeline schedule alone."""
    return _drawn("simulate", _request(run_file, keys))


def search(**keys):
    """The best strategies for a model on a cluster, and why."""
    return Answer("search", json.loads(_tessera.search(_json(keys))))


def vary(run_file=None, **keys):
    """The same run with each of several values: vary="train.micro_batch=1,2,4"."""
    return Answer("vary", json.loads(_tessera.ask("vary", _json(_request(run_file, keys)))))


def emit(system, run_file=None, **keys):
    """The settings of another system for the same run, as a text."""
    request = {"system": system, **_request(run_file, keys)}
    return json.loads(_tessera.ask("emit", _json(request)))["settings"]


def explain(topic, **given):
    """A formula with the numbers put in: explain("ring", bytes="140GB", ranks=32)."""
    request = {"topic": topic, "given": {key.replace("_", "-"): value for key, value in given.items()}}
    return Answer("explain", json.loads(_tessera.ask("explain", _json(request))))


def presets(kind="models"):
    """The catalogue: models, devices, clusters, engines or recipes."""
    return Answer("presets", json.loads(_tessera.ask("presets", _json({"kind": kind}))))


def train(run_file="", *, text="", set=(), mesh="", force=False, on_step=None):
    """Trains, with all ranks as threads of this process, and gives the run directory's summary.

    `text` is the run itself instead of a file. `on_step` gets a dict after every step and ends the
    training by returning False. `force` starts although memory or disk are too small.
    """
    if isinstance(run_file, dict):
        raise Refusal("run_file is a dict: give a path, or the run itself as text=, in TOML", 2)

    def after_step(step):
        return on_step(json.loads(step))
    summary = _tessera.train(str(run_file), text, list(set), mesh, force, after_step if on_step else None)
    return Answer("train", json.loads(summary))


def run(folder):
    """A run directory: its plan, its summary, and its metrics as a table."""
    return Run(folder)
