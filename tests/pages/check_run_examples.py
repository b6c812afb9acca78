#!/usr/bin/env python3
"""tools/run_examples.py finds what a page has wrong, and puts right what it can.

Usage: check_run_examples.py TOOL
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

PROGRAM = """#!/bin/sh
case "$1" in
  table) printf 'name   bytes\\n-----  -----\\nstep      12\\nloss     3.5  model.a\\nend\\n' ;;
  show) cat "$2" ;;
  make) echo made > made.txt ;;
  fail) echo half; echo 'no such thing' >&2; exit 2 ;;
  say) echo "$WORD" ;;
esac
"""
TABLE = "name   bytes\n-----  -----\nstep      12\nloss     3.5  model.a\nend\n"


def load(path):
    spec = importlib.util.spec_from_file_location("run_examples", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def block(kind, text):
    return f"```{kind}\n{text}```\n"


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name) / "program"
        self.program.write_text(PROGRAM, encoding="utf-8")
        self.program.chmod(0o755)
        self.page = pathlib.Path(folder.name) / "page.md"

    def run_tool(self, text, *options):
        self.page.write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, "-B", sys.argv[1], *options, self.program, self.page],
                              capture_output=True, text=True, check=False)

    def expect_fresh(self, text):
        self.assertEqual(TOOL.new_text(self.program, text), text)

    def expect_printed(self, text, line):
        """The page has `line` once it is written again, and has not now."""
        self.assertNotIn(line, text)
        self.assertIn(line, TOOL.new_text(self.program, text).split("\n"))

    def expect_stale(self, text, words):
        with self.assertRaises(TOOL.Stale) as stale:
            TOOL.new_text(self.program, text)
        self.assertIn(words, str(stale.exception))

    def test_what_is_printed_today_is_fresh(self):
        self.expect_fresh(block("console", "$ tessera table\n" + TABLE))
        self.expect_fresh(block("console excerpt", "$ tessera table\n...\nstep      12\n"))
        self.expect_fresh(block("console excerpt", "$ tessera table\n...\nloss     3.5  ...a\nend\n"))
        self.expect_fresh(block("console like", "$ tessera table\n...\nstep  7,000\nloss  1e-9  model...\n"))

    def test_of_a_share_only_its_commands_are_looked_at(self):
        stale = block("console", "$ tessera table\nother\n")
        text = block("console", "$ tessera table\n" + TABLE) + stale
        for rotation, code in (("0", 0), ("1", 1), ("2", 0), ("3", 1)):
            with unittest.mock.patch.dict(os.environ, {"TESSERA_ROTATION": rotation}):
                os.environ.pop("TESSERA_TEST_ALL", None)
                self.assertEqual(self.run_tool(text, "--check", "--share", "2").returncode, code)
        with unittest.mock.patch.dict(os.environ, {"TESSERA_ROTATION": "0", "TESSERA_TEST_ALL": "1"}):
            self.assertEqual(self.run_tool(text, "--check", "--share", "2").returncode, 1)

    def test_other_numbers_are_found_unless_they_are_free(self):
        self.expect_printed(block("console", "$ tessera table\n" + TABLE.replace("12", "13")), "step      12")
        self.expect_printed(block("console excerpt", "$ tessera table\n...\nstep      13\n"), "step      12")
        self.expect_stale(block("console excerpt", "$ tessera table\n...\nloss     3.6  ...\n"), "nothing is printed like")
        self.expect_fresh(block("console like", "$ tessera table\n...\nstep      13\n"))

    def test_other_words_are_found_in_every_kind(self):
        for kind in ("console excerpt", "console like"):
            self.expect_stale(block(kind, "$ tessera table\n...\nsteps     12\n"), "nothing is printed like 'steps")
            self.expect_stale(block(kind, "$ tessera table\n...\nend\n...\nstep      12\n"), "nothing is printed like 'step")

    def test_lines_that_are_left_out_must_be_said(self):
        for kind in ("console excerpt", "console like"):
            self.expect_stale(block(kind, "$ tessera table\nstep      12\n"), "nothing is printed like")
            self.expect_stale(block(kind, "$ tessera table\n...\nstep      12\nend\n"), "right below 'step      12'")

    def test_exit_codes_are_compared(self):
        self.expect_stale(block("console like", "$ tessera fail\n"), "ended with 2 instead of 0")
        self.expect_fresh(block("console exit=2", "$ tessera fail\nhalf\nno such thing\n"))
        self.expect_stale(block("console exit=3", "$ tessera fail\nhalf\nno such thing\n"), "ended with 2 instead of 3")
        self.expect_stale(block("console exit=2", "$ tessera table\n" + TABLE), "ended with 0 instead of 2")
        self.expect_stale(block("console excerpt exit=2", "$ tessera fail\nno thing\n"), "nothing is printed like")

    def test_blocks_that_would_not_be_checked_are_found(self):
        self.expect_stale(block("", "$ tessera table\n"), "mark the block as console")
        self.expect_stale(block("text", "$ WORD=a tessera say\na\n"), "mark the block as console")
        self.expect_stale(block("console exceprt", "$ tessera table\n"), "no block of kind 'console exceprt'")
        self.expect_stale(block("console", "name\n"), "begins with no command")
        self.expect_stale(block("console", "$ rm table\n"), "not a tessera command")
        self.expect_stale("```console\n$ tessera table\n", "a block has no end")

    def test_a_command_may_have_an_environment(self):
        self.expect_fresh(block("console", "$ WORD=hello tessera say\nhello\n"))

    def test_what_is_recorded_is_not_run(self):
        self.expect_fresh(block("console recorded", "$ tessera fail\nas it was\n"))

    def test_a_page_has_one_folder(self):
        self.expect_fresh(block("console excerpt", "$ tessera make\n") + block("console", "$ tessera show made.txt\nmade\n"))
        self.expect_fresh(block("toml file=mine.toml", "a = 1\n") +
                          block("console", "$ tessera show mine.toml\na = 1\n"))
        self.expect_stale(block("console", "$ tessera show made.txt\nmade\n"), "ended with 1")

    def test_writing_puts_numbers_right_and_leaves_the_rest(self):
        shown = block("console like", "$ tessera table\n...\nstep 1\n") + "\nAfter.\n"
        old = block("console", "$ tessera table\n") + block("console excerpt", "$ tessera table\n...\nstep 1\n...\n")
        new = (block("console", "$ tessera table\n" + TABLE) +
               block("console excerpt", "$ tessera table\n...\nstep      12\n...\n"))
        checked = self.run_tool("Before.\n\n" + old + shown, "--check")
        self.assertEqual(checked.returncode, 1, checked.stderr)
        self.assertIn("+step      12", checked.stdout)
        self.assertEqual(self.page.read_text(encoding="utf-8"), "Before.\n\n" + old + shown)
        written = self.run_tool("Before.\n\n" + old + shown)
        self.assertEqual((written.returncode, written.stdout), (0, ""), written.stderr)
        self.assertEqual(self.page.read_text(encoding="utf-8"), "Before.\n\n" + new + shown)

    def test_a_page_that_cannot_be_written_again_is_said(self):
        done = self.run_tool(block("console", "$ tessera fail\n"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("page.md: 'tessera fail' ended with 2", done.stdout)


if __name__ == "__main__":
    TOOL = load(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
