#!/usr/bin/env python3
"""Gathers English text and code from what is installed, for bench/compare_tokenizers.py.

  bench/gather_text.py OUT_DIR [MEGABYTES]

Writes OUT_DIR/english.txt (documentation and manual pages of packages) and OUT_DIR/code.txt (headers and
sources), of at most so many megabytes each (40 unless told), a file after the other with the byte 1E between
them. Files come in the order of a hash of their paths: the same on machines with the same packages, and a mixture of all
packages where not everything fits. Text that occurs twice, is not UTF-8 or is hardly text is left out.
"""
import gzip
import hashlib
import pathlib
import re
import sys

SEPARATOR = b"\x1e"
LARGEST_FILE = 2_000_000  # so that no file is a large part of all
ENGLISH = [("/usr/share/doc", None), ("/usr/share/man", "man"), ("/usr/share/perl", ".pod"), ("/usr/share/info", None)]
CODE = [("/usr/include", None), ("/usr/lib/python3", ".py"), ("/usr/lib/python3.11", ".py"), ("/usr/lib/python3.12", ".py"),
        ("/usr/share/perl", ".pm"), ("/usr/lib/gcc", ".h"), ("/usr/src", ".h")]
CODE_ENDINGS = {".h", ".hpp", ".hh", ".c", ".cc", ".cpp", ".py", ".pm", ".js", ".ts", ".sh", ".cuh", ""}
NOT_ENGLISH = {".html", ".htm", ".png", ".svg", ".jpg", ".pdf", ".css", ".js", ".xml", ".json", ".c", ".h", ".py"}


def files_of(folders):
    for folder, ending in folders:
        for path in pathlib.Path(folder).rglob("*"):
            try:
                if path.is_symlink() or not path.is_file() or not 200 <= path.stat().st_size <= LARGEST_FILE:
                    continue
            except OSError:
                continue
            if ending == "man" and not re.search(r"/share/man/man\d/", str(path)):
                continue  # translations
            if ending and ending != "man" and path.suffix != ending:
                continue
            yield path


def without_markup(text):
    """A manual page as people read it: no macros, no fonts."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("'\\\"", ".\\\"")):
            continue
        if re.match(r"\.(B|I|BR|IR|RB|RI|SH|SS|TP|Nm|Fl|Ar|Xr|Dq)\b", line):
            line = re.sub(r"^\.\w+ ?", "", line)
        elif line.startswith("."):
            continue
        line = re.sub(r"\\f(\[\w*\]|\(\w\w|\w)", "", line)
        lines.append(line.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\"))
    return "\n".join(lines) + "\n"


def read(path):
    try:
        data = gzip.open(path).read(LARGEST_FILE) if path.suffix == ".gz" else path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, gzip.BadGzipFile):
        return None
    if "\0" in text or SEPARATOR.decode() in text:
        return None
    return without_markup(text) if "/share/man/" in str(path) else text


def is_english(text):
    letters = sum(c.isalpha() or c == " " for c in text[:20000])
    return letters > 0.75 * min(len(text), 20000)


def gather(folders, wanted, keep, limit):
    seen, documents, total = set(), [], 0
    paths = [path for path in set(files_of(folders)) if keep(path)]
    paths.sort(key=lambda path: hashlib.sha256(str(path).encode()).digest())
    for path in paths:
        text = read(path)
        if text is None or not text.strip() or not wanted(text):
            continue
        data = text.encode()
        digest = hashlib.sha256(data).digest()
        if digest in seen:  # licences, and the like
            continue
        if total + len(data) > limit:
            break
        seen.add(digest)
        documents.append(data)
        total += len(data) + 1
    return documents


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    limit = int(float(sys.argv[2]) * 1e6) if len(sys.argv) == 3 else 40_000_000
    out.mkdir(parents=True, exist_ok=True)
    english = gather(ENGLISH, is_english, lambda p: p.with_suffix("").suffix not in NOT_ENGLISH and
                     p.suffix not in NOT_ENGLISH, limit)
    code = gather(CODE, lambda text: True, lambda p: p.suffix in CODE_ENDINGS, limit)
    for name, documents in (("english.txt", english), ("code.txt", code)):
        (out / name).write_bytes(SEPARATOR.join(documents))
        print(f"{out / name}: {len(documents)} documents, {sum(map(len, documents)) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
