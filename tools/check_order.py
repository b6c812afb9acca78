#!/usr/bin/env python3
"""Simulates the best plans of a search, Program by Program, and compares the order.

    tools/check_order.py build/bin/tessera pc-4x24-8 --model llama-2-7b --global-batch 64 --seq-len 4096

Takes the first plans for which search wrote a run file (those that `tessera train` can run), prints
the step of search, of plan and of simulate for each, and exits with 1 where two plans that simulate
tells apart by more than --tolerance stand in the other order, or where plan and simulate are further
apart than --agreement. Replaying thousands of ranks takes minutes.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile


def answer(binary, *words):
    done = subprocess.run([binary, *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"check_order: tessera {' '.join(words)} ended with {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def planned_seconds(plan):
    time = plan.get("time", plan)
    return time["step_s"] if "step_s" in time else plan["step"]["step_s"]


def steps_of(args, folder):
    request = ["--model", args.model, "--cluster", args.cluster, "--global-batch",
               str(args.global_batch), "--seq-len", str(args.seq_len)]
    found = answer(args.binary, "search", *request, "--top", str(args.look_through), "--out", folder)
    steps = []
    for plan in found["plans"]:
        file = pathlib.Path(folder) / f"plan-{plan['number']:02}.toml"
        if not file.exists() or len(steps) == args.top:
            continue
        where = [str(file), "--cluster", args.cluster]
        simulated = answer(args.binary, "simulate", *where)["step_s"]
        planned = planned_seconds(answer(args.binary, "plan", *where))
        steps.append((plan["number"], plan["time"]["step_s"], planned, simulated))
        print("plan {:2}  search {:9.4f} s  plan {:9.4f} s  simulate {:9.4f} s".format(*steps[-1]),
              flush=True)
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("binary")
    parser.add_argument("cluster")
    parser.add_argument("--model", default="llama-2-7b")
    parser.add_argument("--global-batch", type=int, default=64)
    parser.add_argument("--seq-len", type=int, default=4096)
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--look-through", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=0.03)
    parser.add_argument("--agreement", type=float, default=0.1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        steps = steps_of(args, folder)
    wrong = [f"plan {a[0]} stands before plan {b[0]}, which simulate finds faster"
             for a, b in itertools.combinations(steps, 2) if a[3] > b[3] * (1 + args.tolerance)]
    wrong += [f"plan {number}: plan and simulate are {abs(planned / simulated - 1):.0%} apart"
              for number, _, planned, simulated in steps
              if abs(planned / simulated - 1) > args.agreement]
    print("\n".join(wrong) if wrong else f"{len(steps)} plans in the order of simulate")
    return 1 if wrong or not steps else 0


if __name__ == "__main__":
    sys.exit(main())
