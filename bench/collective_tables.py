#!/usr/bin/env python3
"""Tables in markdown of what compare_collectives.sh measured: collective_tables.py FOLDER."""
import collections
import datetime
import json
import os
import pathlib
import platform
import statistics
import sys

OPS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"]
PEERS = {"tuned OpenMPI": ["ompi-vader-mt"], "OpenMPI": ["ompi-vader"],
         "Gloo": ["gloo", "gloo-ring", "gloo-hd"]}

ENDS = ("before", "after")


def size_text(size):
    if size >= 1 << 20:
        return f"{size >> 20} MiB"
    return f"{size >> 10} KiB"


def time_text(us):
    if us >= 10000:
        return f"{us / 1000:.1f} ms"
    return f"{us:.1f} us" if us < 1000 else f"{us:.0f} us"


def read_times(path):
    """(op, ranks, bytes) -> {peer: microseconds}; the fastest where a peer was run again."""
    times = collections.defaultdict(dict)
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        if len(fields) != 7 or not fields[2].isdigit():
            continue
        peer = fields[0].removesuffix("+touch")
        cell = times[fields[1], int(fields[2]), int(fields[3])]
        cell[peer] = min(float(fields[4]), cell.get(peer, float("inf")))
    return times


def ratio_cell(rounds, key, names):
    ratios = []
    for times in rounds:
        cell = times.get(key, {})
        theirs = [cell[name] for name in names if name in cell]
        if "own" in cell and theirs:
            ratios.append(min(theirs) / cell["own"])
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f})"


def own_cell(rounds, key):
    own = [times[key]["own"] for times in rounds if "own" in times.get(key, {})]
    if not own:
        return "-"
    us = statistics.median(own)
    return f"{time_text(us)}, {key[2] / us / 1000:.2f} GB/s"


def ratio_tables(rounds):
    keys = sorted({key for times in rounds for key in times})
    for op in OPS:
        for ranks in sorted({key[1] for key in keys if key[0] == op}):
            print(f"\n### {op}, {ranks} processes\n")
            print("| S | ours: time, algbw | " + " | ".join(PEERS) + " |")
            print("|---|---|" + "---|" * len(PEERS))
            for key in keys:
                if key[:2] != (op, ranks):
                    continue
                cells = [ratio_cell(rounds, key, names) for names in PEERS.values()]
                print(f"| {size_text(key[2])} | {own_cell(rounds, key)} | " + " | ".join(cells) + " |")


def read_limit(folder, number, end, name, place=""):
    """What the peers' limit program said of `name` at one end of a round."""
    path = folder / f"round-{number}-{end}.limits"
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        if fields[0] == name and (not place or fields[2].startswith(place)):
            return float(fields[-1])
    raise SystemExit(f"{path} has no {name}")


def print_table(title, header, rows):
    if not rows:
        return
    print(f"\n## {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def all_reduce_limits(folder, hot):
    """All-reduce beside the rate of the peers' limit program before and after the same round."""
    rows = []
    for number, times in enumerate(hot, start=1):
        for (op, ranks, size), cell in sorted(times.items()):
            kernel = {2: "ar2", 4: "ar4"}.get(ranks)
            if op != "all_reduce" or size < 64 << 20 or kernel is None or "own" not in cell:
                continue
            ends = [read_limit(folder, number, end, kernel, "DRAM") for end in ENDS]
            least_us = 2 * ranks * size / statistics.mean(ends) / 1e3
            fractions = [f"{least_us / cell['own']:.2f}"]
            for names in PEERS.values():
                theirs = [cell[name] for name in names if name in cell]
                fractions.append(f"{least_us / min(theirs):.2f}" if theirs else "-")
            limits = ", ".join(f"{end:.1f}" for end in ends)
            rows.append([str(number), str(ranks), size_text(size), limits] + fractions)
    print_table("all_reduce as a fraction of what this machine's memory allows (the peers' limit program)",
                ["round", "processes", "S", "limit before, after GB/s", "ours"] + list(PEERS), rows)


def line_times(folder, num_rounds):
    """Small sizes depend on how far apart the cores are at that minute."""
    rows = []
    for number in range(1, num_rounds + 1):
        times = [read_limit(folder, number, end, "line_pingpong_roundtrip_ns") for end in ENDS]
        rows.append([str(number)] + [f"{time:.0f} ns" for time in times])
    print_table("a cache line to the other core and back", ["round", *ENDS], rows)


def own_limits(folder):
    """Every op beside our own probe of its kernel."""
    fractions = collections.defaultdict(list)
    for path in sorted(folder.glob("round-*-ranks-*.json")):
        for sweep in json.loads(path.read_text())["sweeps"]:
            for row in sweep["rows"]:
                if row["of_limit"] is not None:
                    fractions[sweep["ranks"], OPS.index(sweep["op"]), row["bytes"]].append(row["of_limit"])
    rows = [[OPS[op], str(ranks), size_text(size), ", ".join(f"{value:.2f}" for value in values)]
            for (ranks, op, size), values in sorted(fractions.items())]
    print_table("every op as a fraction of what memory allows it (tessera bench comm)",
                ["op", "processes", "S", "fraction by round"], rows)


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def print_head(num_rounds):
    print(f"""# Collectives beside OpenMPI and Gloo

Processes of one host, f32 sum, all_reduce in place, the others out of place. Measured {datetime.date.today()} on
{os.cpu_count()} cores of {cpu_name()}, Linux {platform.release()}.

Command: `bench/compare_collectives.sh PEERS_DIR {num_rounds}` (all programs alternate in one run and measure in one way:
a sample is the mean of up to 20 calls after a barrier, of the slowest rank; a cell is the median of its samples).
S is the full array in bytes and algbw is S / time, as in nccl-tests. A ratio is their time / ours in the same round: the
median of the rounds and, in brackets, the worst. Quote ratios, not times: absolute rates of a shared machine drift.

- OpenMPI: as installed, over shared memory (vader). Tuned: with malloc told to keep large blocks mapped on huge pages.
- Gloo: the fastest of its algorithms, over TCP on the loopback device.
- Ranks are bound to cores where there are enough.""")


def main():
    folder = pathlib.Path(sys.argv[1])
    hot = [read_times(path) for path in sorted(folder.glob("round-*-hot.tsv"))]
    touched = [read_times(path) for path in sorted(folder.glob("round-*-touch.tsv"))]
    print_head(len(hot))
    all_reduce_limits(folder, hot)
    own_limits(folder)
    line_times(folder, len(hot))
    print("\n## Ratios in a loop, where small arrays stay in the caches")
    ratio_tables(hot)
    print("\n## Ratios with the input rewritten before each call, as after a backward pass")
    ratio_tables(touched)


if __name__ == "__main__":
    main()
