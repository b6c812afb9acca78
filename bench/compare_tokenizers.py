#!/usr/bin/env python3
"""Our encoder beside Hugging Face's tokenizers and tiktoken, alternating in one run.

  bench/compare_tokenizers.py TOKENS_BENCH TEXT_DIR TOKENIZER_DIR [THREADS,...]

TOKENS_BENCH is our program (ninja tokens_bench), TEXT_DIR has english.txt and code.txt of bench/gather_text.py,
TOKENIZER_DIR a byte-level tokenizer of `tessera data tokenizer train`, which all of them load. Needs the Python
packages tokenizers and tiktoken; one that is missing is left out of the table.

Every engine is a process of its own that has read the text and encoded it once. Then they encode in turns, one at a time,
five times each; the median counts. Documents are the same for all, one call has all of them, and each engine
keeps its ids as it does by itself: lists of numbers in Python for tiktoken (or arrays, whichever is faster), encodings without
offsets for tokenizers. Ids must be equal to those of tokenizers in every document: the exit code is 1 where ours differ or
could not be compared.
"""
import array
import concurrent.futures
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5
SEPARATOR = "\x1e"
TEXTS = ("english.txt", "code.txt")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# The same pieces without going back, as tiktoken writes it for its own vocabularies.
GPT2_QUICK = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def byte_alphabet():
    """The character that stands for a byte in tokenizer.json, to the byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


def split_pattern(document):
    steps = document["pre_tokenizer"]
    steps = steps.get("pretokenizers", [steps])
    if steps[0]["type"] == "Split":
        return steps[0]["pattern"]["Regex"]
    return GPT2


class HuggingFace:
    def __init__(self, folder, threads):
        import tokenizers
        self.version = tokenizers.__version__
        self.tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.batch = getattr(self.tokenizer, "encode_batch_fast", self.tokenizer.encode_batch)

    def encode(self, documents):
        return self.batch(documents, add_special_tokens=False)

    def ids(self, encoded):
        return [one.ids for one in encoded]


class Tiktoken:
    def __init__(self, folder, threads, as_arrays=False):
        import tiktoken
        self.version = getattr(tiktoken, "__version__", "?")
        document = json.loads(pathlib.Path(folder, "tokenizer.json").read_text())
        alphabet = byte_alphabet()
        special = {token["content"]: token["id"] for token in document["added_tokens"]}
        ranks = {bytes(alphabet[c] for c in token): id for token, id in document["model"]["vocab"].items()
                 if token not in special}
        pattern = split_pattern(document)
        self.encoding = tiktoken.Encoding("ours", pat_str=GPT2_QUICK if pattern == GPT2 else pattern,
                                          mergeable_ranks=ranks, special_tokens=special)
        self.one = self.encoding.encode_ordinary
        if as_arrays:
            self.one = lambda text: self.encoding.encode_to_numpy(text, disallowed_special=())
        self.threads = threads
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def encode(self, documents):
        if self.threads == 1:
            return [self.one(document) for document in documents]
        return list(self.pool.map(self.one, documents))

    def ids(self, encoded):
        return [[int(id) for id in one] for one in encoded]


class TiktokenArrays(Tiktoken):
    def __init__(self, folder, threads):
        super().__init__(folder, threads, as_arrays=True)


PEERS = {"tokenizers": HuggingFace, "tiktoken": Tiktoken, "tiktoken arrays": TiktokenArrays}


def serve(peer, folder, text, threads):
    """The process of a peer: the commands of tokens_bench."""
    try:
        engine = PEERS[peer](folder, threads)
    except ImportError as error:
        print(f"missing: {error}", flush=True)
        return
    documents = pathlib.Path(text).read_bytes().decode("utf-8").split(SEPARATOR)
    try:
        encoded = engine.encode(documents)
    except Exception as error:  # a version without one of the calls
        print(f"missing: {error!r}", flush=True)
        return
    print(f"ready {engine.version}", flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "go":
            start = time.perf_counter()
            encoded = engine.encode(documents)
            print(time.perf_counter() - start, flush=True)
        elif command == "ids":
            with open(argument, "wb") as file:
                for ids in engine.ids(encoded):
                    array.array("i", ids).tofile(file)
            print("written", flush=True)


class Engine:
    """One of the processes."""

    def __init__(self, name, command, threads):
        self.name = name
        self.seconds = []
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads),
                       "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.hello = self.process.stdout.readline().strip()
        self.there = self.hello.startswith("ready")
        if not self.there:
            print(f"{name}: left out ({self.hello or 'it ended'})", file=sys.stderr)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            sys.exit(f"{self.name} ended at '{command}'")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(program, text, tokenizer, threads):
    """Median seconds by engine, which of them have the ids of tokenizers (none where it is missing), and how many ids."""
    own = [str(pathlib.Path(program).resolve()), str(tokenizer), str(text), str(threads)]
    me = [sys.executable, __file__, "--serve"]
    engines = [Engine("tessera", own, threads)]
    engines += [Engine(peer, [*me, peer, str(tokenizer), str(text), str(threads)], threads) for peer in PEERS]
    engines = [engine for engine in engines if engine.there]
    for _ in range(ROUNDS):
        for engine in engines:
            engine.seconds.append(float(engine.ask("go")))
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for engine in engines:
            files[engine.name] = pathlib.Path(folder, engine.name.replace(" ", "_"))
            engine.ask(f"ids {files[engine.name]}")
        ids = {name: file.read_bytes() for name, file in files.items()}
    for engine in engines:
        engine.close()
    reference = ids.get("tokenizers")
    equal = {name: one == reference for name, one in ids.items()} if reference is not None else {}
    return {engine.name: statistics.median(engine.seconds) for engine in engines}, equal, len(ids["tessera"]) // 4


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--serve":
        serve(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
        return 0
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    program, texts, tokenizer = (pathlib.Path(argument) for argument in sys.argv[1:4])
    counts = [int(n) for n in (sys.argv[4] if len(sys.argv) == 5 else "1,16").split(",")]
    vocabulary = json.loads((tokenizer / "tokenizer.json").read_text())["model"]["vocab"]
    print(f"{processor()}, {os.cpu_count()} cores; a vocabulary of {len(vocabulary):,}; medians of {ROUNDS}, MB/s\n")
    print(f"| text | threads | tessera | {' | '.join(PEERS)} | tessera / fastest peer | ids |")
    print(f"|---|---|---|{'---|' * len(PEERS)}---|---|")
    good = True
    for name in TEXTS:
        megabytes = (texts / name).stat().st_size / 1e6
        for threads in counts:
            seconds, equal, tokens = measure(program, texts / name, tokenizer, threads)
            speed = {engine: megabytes / one for engine, one in seconds.items()}
            fastest = max((s for engine, s in speed.items() if engine != "tessera"), default=None)
            shown = [f"{speed[engine]:.1f}" if engine in speed else "-" for engine in ("tessera", *PEERS)]
            ratio = f"{speed['tessera'] / fastest:.2f}" if fastest else "-"
            differ = [engine for engine, same in equal.items() if not same]
            good = good and equal.get("tessera", False)
            verdict = f"differ: {', '.join(differ)}" if differ else f"equal, {tokens:,}" if equal else "not compared"
            print(f"| {name} ({megabytes:.1f} MB) | {threads} | {' | '.join(shown)} | {ratio} | {verdict} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
