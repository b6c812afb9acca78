"""The Python package against the command line: python3 -m unittest, with TESSERA_BINARY set."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tessera

SMALL = """
[model]
layers = 2
hidden = 64
ffn = 172
heads = 4
vocab = 256
[parallel]
dp = 2
[train]
seq_len = 64
micro_batch = 2
global_batch = 8
steps = 6
device = "cpu"
[data]
synth = { seed = 7, bytes = 20000 }
"""


def command(*words):
    done = subprocess.run([os.environ["TESSERA_BINARY"], *words], capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout) if done.returncode == 0 else done


class SameAsTheCommand(unittest.TestCase):
    def test_plan_of_405b(self):
        printed = command("plan", "--model", "llama-3-405b", "--cluster", "h100-16384", "--tp", "8", "--pp", "16",
                          "--zero", "1", "--json")
        plan = tessera.plan(model="llama-3-405b", cluster="h100-16384", tp=8, pp=16, zero=1)
        self.assertEqual(plan, printed)
        self.assertEqual(list(plan), list(printed))
        self.assertEqual(plan["parameters"], 405853388800)

    def test_search(self):
        words = {"model": "gpt2", "cluster": "h100-8", "global_batch": 64, "seq_len": 1024, "top": 3}
        flags = [word for key, value in words.items() for word in ("--" + key.replace("_", "-"), str(value))]
        self.assertEqual(tessera.search(**words), command("search", *flags, "--json"))

    def test_simulation_explanation_and_catalogue(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.toml"
            path.write_text(SMALL)
            self.assertEqual(tessera.simulate(path, cluster="h100-8", mesh="pp=2"),
                             command("simulate", str(path), "--cluster", "h100-8", "--mesh", "pp=2", "--json"))
            self.assertEqual(tessera.vary(path, cluster="h100-8", vary="train.micro_batch=1,2"),
                             command("plan", str(path), "--cluster", "h100-8", "--vary", "train.micro_batch=1,2",
                                     "--json"))
        self.assertEqual(tessera.explain("bubble", micro_batches=16, ranks=8),
                         command("explain", "bubble", "--micro-batches", "16", "--ranks", "8", "--json"))
        self.assertEqual(tessera.presets("models"), command("presets", "models", "--json"))

    def test_a_refusal_has_the_words_and_the_exit_code(self):
        refused = command("plan", "--model", "lama-3-405b", "--cluster", "h100-16384")
        with self.assertRaises(tessera.Refusal) as caught:
            tessera.plan(model="lama-3-405b", cluster="h100-16384")
        self.assertEqual(caught.exception.exit_code, refused.returncode)
        self.assertEqual(f"tessera: error: {caught.exception}", refused.stderr.strip())
        with self.assertRaisesRegex(tessera.Refusal, "did you mean 'model'"):
            tessera.search(modle="gpt2")


class Notebook(unittest.TestCase):
    def test_slips_of_python_are_refused_by_name(self):
        def refused(call, *said):
            with self.assertRaises(tessera.Refusal) as caught:
                call()
            self.assertEqual(caught.exception.exit_code, 2)
            for part in said:
                self.assertIn(part, str(caught.exception))
        small = {"model": "gpt2", "cluster": "h100-8"}
        refused(lambda: tessera.plan(**small, seq_len=float("nan")), "seq_len is nan", "finite")
        refused(lambda: tessera.plan(**small, tp={1, 2}), "tp: {1, 2} is a set")
        refused(lambda: tessera.train({"model": {"preset": "gpt2"}}), "run_file is a dict", "text=")
        refused(lambda: tessera.plan("gpt2"), "it is a model: --model gpt2")
        with self.assertRaises(KeyError) as caught:
            tessera.plan(**small)["step_s"]
        self.assertIn("['time']['step_s']", str(caught.exception))
        self.assertEqual(tessera.presets(), tessera.presets("models"))

    def test_answers_are_short_and_have_pictures(self):
        plan = tessera.plan(model="gpt2", cluster="h100-8")
        self.assertIn("on 8 ranks", repr(plan))
        self.assertLess(len(repr(plan)), 300)
        self.assertTrue(plan._repr_svg_().rstrip().endswith("</svg>"))
        schedule = tessera.simulate(schedule_only=True, run_file="r.toml", mesh="pp=2", files={"r.toml": SMALL})
        self.assertIn("bubble", repr(schedule))
        self.assertIn("<svg", schedule._repr_svg_())

    def test_whole_requests_and_files_of_the_request(self):
        request = {"run_file": "r.toml", "files": {"r.toml": SMALL}}
        self.assertEqual(tessera.plan(request, mesh="dp=1"), tessera.plan({**request, "mesh": "dp=1"}))


class Training(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.run_dir = str(pathlib.Path(self.folder.name) / "run")
        self.settings = [f"logging.run_dir={self.run_dir}", "logging.every=1"]

    def test_a_run_is_a_table(self):
        seen = []
        summary = tessera.train(text=SMALL, set=self.settings, on_step=lambda step: seen.append(step["step"]))
        self.assertEqual(seen, [1, 2, 3, 4, 5, 6])
        run = tessera.run(self.run_dir)
        self.assertEqual(run.metrics.column("step"), seen)
        self.assertEqual(run.summary, summary)
        self.assertEqual(run.plan["ranks"], summary["ranks"])
        self.assertIn("step 6", repr(run))
        self.assertIn("<polyline", run._repr_svg_())
        self.assertIn("loss", repr(run.metrics).splitlines()[0])
        with self.assertRaisesRegex(KeyError, "no column 'los'"):
            run.metrics.column("los")

    def test_a_callback_ends_the_training(self):
        summary = tessera.train(text=SMALL, set=self.settings, on_step=lambda step: step["step"] < 3)
        self.assertEqual(summary["steps"], 3)

    def test_what_a_callback_raises_comes_out(self):
        def fail(step):
            raise ValueError("enough")
        with self.assertRaisesRegex(ValueError, "enough"):
            tessera.train(text=SMALL, set=self.settings, on_step=fail)

    def test_what_the_command_refuses_is_refused_before_the_first_step(self):
        large = ["model.hidden=4096", "model.ffn=11008", "model.layers=64", "model.heads=32"]
        for settings, code, words in [
            (large, 3, "does not fit: rank 0 .* shared by 2 ranks"),
            (["data.synth.bytes=20"], 2, "synthetic stories"),
            (["data.path=/nowhere"], 2, "/nowhere"),
            (["model.vocab=100"], 2, "model.vocab is 100"),
            ([f"logging.run_dir={__file__}/run"], 2, "cannot write in the run directory"),
        ]:
            with self.subTest(settings), self.assertRaisesRegex(tessera.Refusal, words) as refused:
                tessera.train(text=SMALL, set=[*self.settings, *settings])
            self.assertEqual(refused.exception.exit_code, code)
            self.assertFalse(os.path.exists(self.run_dir))

    def test_a_run_directory_in_use_or_with_a_run_is_refused(self):
        def second(step):
            with self.assertRaisesRegex(tessera.Refusal, "is in use by pid"):
                tessera.train(text=SMALL, set=self.settings)
        tessera.train(text=SMALL, set=self.settings, on_step=second)
        with self.assertRaisesRegex(tessera.Refusal, "holds a run"):
            tessera.train(text=SMALL, set=self.settings)

    def test_a_line_that_is_no_json_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "resolved.json").write_text("{}")
            (pathlib.Path(folder) / "metrics.jsonl").write_text('{"step": 1}\nstep,loss\n')
            with self.assertRaises(tessera.Refusal) as caught:
                tessera.run(folder).metrics
            self.assertIn("metrics.jsonl: line 2 is not JSON: 'step,loss'", str(caught.exception))

    def test_a_folder_without_a_run_is_refused(self):
        with self.assertRaisesRegex(tessera.Refusal, "is no run directory"):
            tessera.run(self.folder.name)


if __name__ == "__main__":
    sys.exit(unittest.main())
