#!/usr/bin/env python3
"""Fits the constants of catalogue/ that are marked "fitted" to published runs, one by one.

    python3 tools/fit_engine.py --tessera build/bin/tessera --data published-results.json
    python3 tools/fit_engine.py ... --only overlap_window --only h100/product_fill

For each constant, all others as the files have them, `tessera bench published` prices every run
with values around the file's; families whose prices move are those it is fitted to. Printed:
the file's value and the best one, the families' mean error at both, the values whose error is
within a tenth of a point of the best (where the file's value lies there, the fit says the same),
and, leaving one family out at a time, the error on that family with the value that the others
choose. Then the residuals of every family. Needs nothing but the standard library.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import tomllib

FACTORS = [0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0]
REFINEMENTS = 4
MEMORY_KEYS = {"turn_units", "expert_units", "backward_units", "logit_bytes", "workspace_bytes"}
NOT_FITTED_ALONE = {"kernels_wait_for_host"}  # yes or no


def load(path):
    with open(path, "rb") as file:
        return tomllib.load(file)


def is_fitted(value):
    """Devices and clusters: [value, provenance, source]; engines have a unit before it."""
    return isinstance(value, list) and len(value) in (3, 4) and value[-2] == "fitted"


class Catalogue:
    def __init__(self, folder):
        self.files = {}
        for kind in ("engines", "devices", "clusters"):
            path = os.path.join(folder, kind)
            self.files[kind] = {
                name[:-5]: load(os.path.join(path, name))
                for name in sorted(os.listdir(path))
                if name.endswith(".toml")
            }

    def origin(self, device, key, part=None):
        """The device file that gives `device` its value of a key."""
        while device:
            table = self.files["devices"][device]
            here = table.get(part, {}) if part else table
            if key in here:
                return device
            device = table.get("extends")
        return None

    def resolved(self, cluster, key):
        while cluster:
            table = self.files["clusters"][cluster]
            if key in table:
                return table[key], cluster
            cluster = table.get("extends")
        return None, None

    def constants(self):
        """(name, value, write): write(folder, value) makes the files that change it."""
        for engine, table in self.files["engines"].items():
            for key, value in table.items():
                if is_fitted(value) and key not in NOT_FITTED_ALONE:
                    yield f"{engine}/{key}", value[0], self.engine_writer(engine, key, value)
        for device, table in self.files["devices"].items():
            for key, value in table.items():
                if is_fitted(value):
                    yield f"{device}/{key}", value[0], self.device_writer(device, None, key, value)
                if isinstance(value, dict):
                    for kind, inner in value.items():
                        if is_fitted(inner):
                            yield (f"{device}/{key}.{kind}", inner[0],
                                   self.device_writer(device, key, kind, inner))
        for cluster, table in self.files["clusters"].items():
            for at, level in enumerate(table.get("levels", [])):
                for key, value in level.items():
                    if is_fitted(value):
                        yield (f"{cluster}/{level['name']}.{key}", value[0],
                               self.level_writer(cluster, at, key, value))
        # The one that lies in the program: every level of every cluster has it.
        yield "links/shared_adapters", 0.5, self.adapters_writer()

    def engine_writer(self, engine, key, old):
        def write(folder, value):
            text = f'extends = "{engine}"\n{line(key, [value] + old[1:])}'
            put(folder, "engines", f"{engine}.toml", text)
            # What extends it must extend the changed file.
            for other, table in self.files["engines"].items():
                if table.get("extends") == engine and key not in table:
                    own = "".join(line(k, v) for k, v in table.items() if k != "extends")
                    put(folder, "engines", f"{other}.toml", f'extends = "{engine}.toml"\n{own}')
        return write

    def device_writer(self, device, part, key, old):
        def write(folder, value):
            for cluster in self.files["clusters"]:
                used, _ = self.resolved(cluster, "device")
                if not isinstance(used, str) or self.origin(used, key, part) != device:
                    continue
                head = f"[device.{part}]\n" if part else ""
                put(folder, "clusters", f"{cluster}.toml",
                    f'extends = "{cluster}"\n[device]\nname = "{used}"\nextends = "{used}"\n'
                    + head + line(key, [value] + old[1:]))
        return write

    def level_writer(self, cluster, at, key, old):
        def write(folder, value):
            for other in self.files["clusters"]:
                levels, origin = self.resolved(other, "levels")
                if origin != cluster:
                    continue
                changed = [dict(level) for level in levels]
                changed[at][key] = [value] + old[1:]
                put(folder, "clusters", f"{other}.toml",
                    f'extends = "{other}"\n' + levels_text(changed))
        return write

    def adapters_writer(self):
        def write(folder, value):
            for cluster in self.files["clusters"]:
                levels, _ = self.resolved(cluster, "levels")
                if levels:
                    changed = [dict(level, shared_adapters=value) for level in levels]
                    put(folder, "clusters", f"{cluster}.toml",
                        f'extends = "{cluster}"\n' + levels_text(changed))
        return write


def line(key, value):
    return f"{key} = {json.dumps(value)}\n"


def levels_text(levels):
    return "".join("[[levels]]\n" + "".join(line(k, v) for k, v in level.items())
                   for level in levels)


def put(folder, kind, name, text):
    os.makedirs(os.path.join(folder, kind), exist_ok=True)
    with open(os.path.join(folder, kind, name), "w") as file:
        file.write(text)


def family_of(identity):
    return "-".join(identity.split("-")[:2])


class Runs:
    """Errors of every family, by quantity, as the program prices the data."""

    def __init__(self, tessera, data):
        self.command = [tessera, "bench", "published", data, "--json"]

    def price(self, write=None, value=None):
        """{quantity: {family: [ln(predicted / measured)]}}, or None where a value is refused."""
        with tempfile.TemporaryDirectory() as folder:
            command = list(self.command)
            if write:
                write(folder, value)
                command += ["--catalogue", folder]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return None
        errors = {}
        for c in json.loads(done.stdout)["comparisons"]:
            if c["measured"] > 0 and c["predicted"] > 0:
                of = errors.setdefault(c["quantity"], {})
                of.setdefault(family_of(c["id"]), []).append(
                    math.log(c["predicted"] / c["measured"]))
        return errors


def mean_error(errors, families):
    """Percent: the mean over families of their mean absolute errors."""
    means = [sum(map(abs, errors[f])) / len(errors[f]) for f in families if f in errors]
    return 100 * sum(means) / len(means) if means else 0.0


def best(points, families):
    return min(points, key=lambda value: (mean_error(points[value], families), abs(value)))


def fit(name, value, write, runs, base):
    quantity = "memory" if name.split("/")[1] in MEMORY_KEYS else "step time"
    points = {value: base[quantity]}

    def meet(other):
        if other in points:
            return
        errors = runs.price(write, other)
        if errors and quantity in errors:
            points[other] = errors[quantity]

    for factor in FACTORS:
        meet(value * factor)
    moved = sorted({f for errors in points.values() for f, list_ in errors.items()
                    if list_ != base[quantity].get(f)})
    if not moved:
        return None
    for _ in range(REFINEMENTS):
        values = sorted(points)
        at = values.index(best(points, moved))
        for a, b in ((at - 1, at), (at, at + 1)):
            if 0 <= a and b < len(values):
                meet(math.sqrt(values[a] * values[b]))
    chosen = best(points, moved)
    least = mean_error(points[chosen], moved)
    near = [v for v in points if mean_error(points[v], moved) <= least + 0.1]
    left_out = []
    for family in moved:
        others = [f for f in moved if f != family]
        if others:
            left_out.append(mean_error(points[best(points, others)], [family]))
    return {
        "file": value, "refitted": chosen, "families": moved,
        "at_file": mean_error(points[value], moved), "at_refitted": least,
        "from": min(near), "to": max(near),
        "left_out": sum(left_out) / len(left_out) if left_out else None,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tessera", default="build/bin/tessera")
    parser.add_argument("--data", required=True, help="published runs, JSON")
    parser.add_argument("--catalogue", default=os.path.join(os.path.dirname(__file__), "..",
                                                            "catalogue"))
    parser.add_argument("--only", action="append", default=[], help="constants with this in them")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = Runs(options.tessera, options.data)
    base = runs.price()
    if base is None:
        sys.exit("fit_engine: the data cannot be priced: " + " ".join(runs.command))
    results = {}
    header = (f"{'constant':44} {'file':>10} {'refitted':>10} {'error %':>8} {'refit':>6} "
              f"{'left out':>8}  within a tenth of a point; families")
    if not options.json:
        print(header)
    for name, value, write in Catalogue(options.catalogue).constants():
        if options.only and not any(part in name for part in options.only):
            continue
        result = fit(name, value, write, runs, base)
        results[name] = result
        if options.json:
            continue
        if result is None:
            print(f"{name:44} {value:10.4g}  no run of the data depends on it", flush=True)
            continue
        left = "" if result["left_out"] is None else f"{result['left_out']:8.2f}"
        print(f"{name:44} {value:10.4g} {result['refitted']:10.4g} {result['at_file']:8.2f} "
              f"{result['at_refitted']:6.2f} {left:>8}  {result['from']:.4g} to "
              f"{result['to']:.4g}; {len(result['families'])}", flush=True)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for quantity in ("step time", "memory"):
        print(f"\nresiduals, {quantity}: family, runs, mean absolute error %, bias %")
        for family, errors in base.get(quantity, {}).items():
            print(f"{family:36} {len(errors):4} {100 * sum(map(abs, errors)) / len(errors):7.2f} "
                  f"{100 * sum(errors) / len(errors):+7.2f}")


if __name__ == "__main__":
    main()
