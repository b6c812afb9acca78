#!/usr/bin/env python3
"""Tables in markdown of what compare_collectives.sh measured: collective_tables.py FOLDER."""
import collections
import json
import pathlib
import statistics
import sys

OPS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"]
PEERS = {"tuned OpenMPI": ["ompi-vader-mt"], "OpenMPI": ["ompi-vader"],
         "Gloo": ["gloo", "gloo-ring", "gloo-hd"]}


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


def ratio_tables(title, rounds):
    keys = sorted({key for times in rounds for key in times})
    for op in OPS:
        for ranks in sorted({key[1] for key in keys if key[0] == op}):
            print(f"\n### {op}, {ranks} processes, {title}\n")
            print("| S | ours: time, algbw | " + " | ".join(PEERS) + " |")
            print("|---|---|" + "---|" * len(PEERS))
            for key in keys:
                if key[:2] != (op, ranks):
                    continue
                cells = [ratio_cell(rounds, key, names) for names in PEERS.values()]
                print(f"| {size_text(key[2])} | {own_cell(rounds, key)} | " + " | ".join(cells) + " |")


def read_limit(path, kernel):
    """Bytes per second of the kernel over memory, with all cores."""
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        if fields[0] == kernel and fields[2].startswith("DRAM"):
            return float(fields[3]) * 1e9
    return None


def all_reduce_limits(folder, hot):
    """All-reduce beside the rate of the peers' limit program before and after the same round."""
    print("\n## all_reduce as a fraction of the machine's limit (peers' limit program)\n")
    print("| round | processes | S | limit before, after GB/s | ours | tuned OpenMPI | OpenMPI | Gloo |")
    print("|---|---|---|---|---|---|---|---|")
    for number, times in enumerate(hot, start=1):
        for (op, ranks, size), cell in sorted(times.items()):
            kernel = {2: "ar2", 4: "ar4"}.get(ranks)
            if op != "all_reduce" or size < 64 << 20 or kernel is None or "own" not in cell:
                continue
            ends = [read_limit(folder / f"round-{number}-{end}.limits", kernel)
                    for end in ("before", "after")]
            if None in ends:
                continue
            least_us = 2 * ranks * size / statistics.mean(ends) * 1e6
            fractions = [f"{least_us / cell['own']:.2f}"]
            for names in PEERS.values():
                theirs = [cell[name] for name in names if name in cell]
                fractions.append(f"{least_us / min(theirs):.2f}" if theirs else "-")
            print(f"| {number} | {ranks} | {size_text(size)} | {ends[0] / 1e9:.1f}, {ends[1] / 1e9:.1f} | "
                  + " | ".join(fractions) + " |")


def own_limits(folder):
    """Every op beside our own probe of its kernel."""
    print("\n## every op as a fraction of its kernel's rate (tessera bench comm)\n")
    print("| op | processes | S | fraction by round |")
    print("|---|---|---|---|")
    fractions = collections.defaultdict(list)
    for path in sorted(folder.glob("round-*-ranks-*.json")):
        for sweep in json.loads(path.read_text())["sweeps"]:
            for row in sweep["rows"]:
                if row["of_limit"] is not None:
                    fractions[sweep["op"], sweep["ranks"], row["bytes"]].append(row["of_limit"])
    for (op, ranks, size), values in sorted(fractions.items(), key=lambda e: (e[0][1], OPS.index(e[0][0]))):
        print(f"| {op} | {ranks} | {size_text(size)} | " + ", ".join(f"{v:.2f}" for v in values) + " |")


def main():
    folder = pathlib.Path(sys.argv[1])
    hot = [read_times(path) for path in sorted(folder.glob("round-*-hot.tsv"))]
    touched = [read_times(path) for path in sorted(folder.glob("round-*-touch.tsv"))]
    print(f"## ratios, {len(hot)} rounds: their time / ours, median (worst)")
    ratio_tables("in a loop", hot)
    ratio_tables("input rewritten before each call", touched)
    all_reduce_limits(folder, hot)
    own_limits(folder)


if __name__ == "__main__":
    main()
