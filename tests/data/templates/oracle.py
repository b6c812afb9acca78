#!/usr/bin/env python3
"""What Jinja2, set up as transformers sets it up, makes of templates: the oracle of the tests.

Usage: oracle.py CASES.json ANSWERS.json
CASES is a list of {"template", "context"}; an answer is {"text", "spans"} (bytes of what stood in
generation blocks) or {"error"}.
"""

import datetime
import functools
import json
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

BEGIN, END = "\ue000", "\ue001"  # private characters mark what was generated
NOW = datetime.datetime(2026, 3, 5, 9, 7, 3)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        return BEGIN + caller() + END


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def without_marks(text):
    plain, spans = "", []
    while BEGIN in text:
        before, _, rest = text.partition(BEGIN)
        inside, _, text = rest.partition(END)
        plain += before
        if inside:
            begin = len(plain.encode())
            spans.append([begin, begin + len(inside.encode())])
        plain += inside
    return {"text": plain + text, "spans": spans}


@functools.cache
def compiled(env, source):
    return env.from_string(source)


def answer(env, case):
    try:
        return without_marks(compiled(env, case["template"]).render(**case["context"]))
    except RecursionError:
        raise
    except Exception as error:  # Jinja passes on whatever Python raises
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    env = environment()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump([answer(env, case) for case in cases], file, ensure_ascii=False)


main()
