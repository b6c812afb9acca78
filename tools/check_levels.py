#!/usr/bin/env python3
"""Checks that a program runs on every x86-64-v3 CPU: no function outside src/kernels/cpu/levels has an instruction of
AVX-512, and the objects of a level give nothing to other code but their tables.

    python3 tools/check_levels.py PROGRAM OBJECT...

OBJECTs are those of src/kernels/cpu/levels/v*. An inline function that was compiled for a level, and is not local to
its object, could be the copy that the linker keeps for everybody: it is named.
"""
import os
import re
import subprocess
import sys
import tempfile

# Registers that only AVX-512 has, and its masks.
WIDE = r"%zmm|%[xy]mm(1[6-9]|2[0-9]|3[01])|%k[0-7]"
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
TABLES = re.compile(r"^tessera::kernels::cpu::levels::k(Products|Serving)\w*$")


def wide_functions(program):
    """Functions of `program` outside the levels with instructions of AVX-512, each with the first of these, and how many
    functions of levels have such instructions."""
    # A filter on the way: a program has millions of instructions.
    command = f"objdump -d --no-show-raw-insn \"$1\" | grep -E '^[0-9a-f]+ <|{WIDE}'"
    process = subprocess.Popen(["sh", "-c", command, "sh", program], stdout=subprocess.PIPE, text=True)
    found, inside, name = {}, set(), "?"
    for line in process.stdout:
        start = FUNCTION.match(line)
        if start:
            name = start.group(1)
        elif "6levels" in name:
            inside.add(name)
        else:
            found.setdefault(name, line.strip())
    process.wait()
    return found, len(inside)


def shared_symbols(path):
    """What an object defines for others beside its tables."""
    text = subprocess.run(["nm", "-C", "--defined-only", "--extern-only", path], check=True, capture_output=True,
                          text=True).stdout
    names = [line.split(" ", 2)[2] for line in text.splitlines() if line]
    return [name for name in names if not TABLES.match(name) and name != "DW.ref.__gxx_personality_v0"]


def self_test(compiler):
    """Plants what must be found in a program and in an object of its own."""
    outside = ("#include <immintrin.h>\n"
               "__attribute__((noinline, target(\"avx512f\"))) void outside(float* x) {\n"
               "  _mm512_storeu_ps(x, _mm512_loadu_ps(x + 16));\n}\n"
               "int main() { float x[32] = {}; outside(x); return x[0] != 0; }\n")
    inline = ("namespace tessera::kernels::cpu::levels { extern const int kServingV4 = 1; }\n"
              "__attribute__((noinline)) inline int twice(int x) { return 2 * x; }\n"
              "static int use(int x) { return twice(x); }\nint (*volatile used)(int) = use;\n")
    with tempfile.TemporaryDirectory() as folder:
        def compiled(name, text, *options):
            source = os.path.join(folder, name + ".cc")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            subprocess.run([compiler, "-std=c++20", "-O1", *options, source, "-o", os.path.join(folder, name)], check=True)
            return os.path.join(folder, name)
        found, _ = wide_functions(compiled("program", outside))
        shared = shared_symbols(compiled("object", inline, "-c"))
    if list(found) != ["_Z7outsidePf"] or sorted(shared) != ["twice(int)", "used"]:
        print(f"check_levels: planted instructions were not found: {found} {shared}")
        return 1
    return 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test(sys.argv[2])
    program, objects = sys.argv[1], sys.argv[2:]
    failures = []
    found, inside = wide_functions(program)
    for name, line in sorted(found.items()):
        failures.append(f"{os.path.basename(program)}: {name} needs AVX-512: {line}")
    if inside == 0:
        failures.append(f"{os.path.basename(program)}: no function of a level has AVX-512: is it stripped?")
    if not objects:
        failures.append("no objects of levels were given")
    for path in objects:
        for name in shared_symbols(path):
            failures.append(f"{os.path.basename(os.path.dirname(path))}/{os.path.basename(path)} also defines {name}: make it local")
    for failure in failures[:40]:
        print(failure)
    print(f"check_levels: {inside} functions with AVX-512, all of levels" if not failures else
          f"check_levels: {len(failures)} findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
