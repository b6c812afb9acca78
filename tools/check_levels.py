#!/usr/bin/env python3
"""Checks that a program runs on every x86-64-v3 CPU: no function outside src/kernels/cpu/levels has an instruction of
AVX-512 or of tiles (AMX), no object of a level has instructions of a higher one, and they give nothing to other code
but their tables.

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
TILES = r"%tmm[0-7]|tilerelease|[ls][dt]tilecfg"
# What the objects of a level must not have, and must have somewhere.
LACKS = {"v3": f"{WIDE}|{TILES}", "v4": TILES, "v4_bf16": TILES}
HAS = {"v4": WIDE, "v4_bf16": WIDE, "v4_amx": TILES}
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
TABLES = re.compile(r"^tessera::kernels::cpu::levels::k(Products|Serving|Exponentials)\w*$")


def wide_functions(program):
    """Functions of `program` outside the levels with instructions of AVX-512 or tiles, each with the first of these, and
    how many functions of levels have such instructions."""
    # A filter on the way: a program has millions of instructions.
    command = f"objdump -d --no-show-raw-insn \"$1\" | grep -E '^[0-9a-f]+ <|{WIDE}|{TILES}'"
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


def instructions(path):
    return subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout


def check_objects(texts):
    """What is wrong with the instructions of objects: a list of (level, disassembly)."""
    failures = []
    for level, text in texts:
        found = re.search(f".*({LACKS[level]}).*", text) if level in LACKS else None
        if found:
            failures.append(f"an object of level {level} has an instruction of a higher one: {found.group(0).strip()}")
    for level, pattern in HAS.items():
        if not any(re.search(pattern, text) for at, text in texts if at == level):
            failures.append(f"no object of level {level} has its instructions")
    return failures


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
               "__attribute__((noinline)) void with_tiles() { asm volatile(\"tilerelease\"); }\n"
               "int main() { float x[32] = {}; outside(x); with_tiles(); return x[0] != 0; }\n")
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
    wide, tiles = "vmovups %zmm1,(%rdi)", "tdpbf16ps %tmm6,%tmm4,%tmm0"
    right = [("v3", "vmovups %ymm1,(%rdi)"), ("v4", wide), ("v4_bf16", wide), ("v4_amx", tiles)]
    mixed = [("v3", wide), ("v4", f"{wide}\n{tiles}"), ("v4_bf16", wide), ("v4_amx", wide)]
    if check_objects(right) or len(check_objects(mixed)) != 3:
        print(f"check_levels: planted objects were not told apart: {check_objects(right)} {check_objects(mixed)}")
        return 1
    if sorted(found) != ["_Z10with_tilesv", "_Z7outsidePf"] or sorted(shared) != ["twice(int)", "used"]:
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
        failures.append(f"{os.path.basename(program)}: {name} needs more than AVX2: {line}")
    if inside == 0:
        failures.append(f"{os.path.basename(program)}: no function of a level has AVX-512: is it stripped?")
    if not objects:
        failures.append("no objects of levels were given")
    failures += check_objects([(os.path.basename(os.path.dirname(path)), instructions(path)) for path in objects])
    for path in objects:
        for name in shared_symbols(path):
            failures.append(f"{os.path.basename(os.path.dirname(path))}/{os.path.basename(path)} also defines {name}: make it local")
    for failure in failures[:40]:
        print(failure)
    print(f"check_levels: {inside} functions with AVX-512 or tiles, all of levels" if not failures else
          f"check_levels: {len(failures)} findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
