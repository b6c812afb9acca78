// Requests that end badly: they are answered with an error, or the core says that it failed and answers the
// next one. And the runtime's own checks, where build-wasm/runtime_check.wasm is. Exits with 77 where there is no core.
// Usage: node wasm/traps.mjs [CORE]
import assert from "node:assert";
import { existsSync, readFileSync } from "node:fs";
import { Core, CoreFailed, instantiate, readCore } from "./node_core.mjs";
import { findCore, here } from "./find_core.mjs";

const LARGE = 2_000_000;
const SEARCH = '{"model": "gpt2", "cluster": "h100-8", "global_batch": 64, "seq_len": 1024}';

const core = new Core(readCore(process.argv[2] ?? findCore()), () => {
  throw new Error("thrown through the core");
});

function answers() {
  const answer = JSON.parse(core.ask("explain", '{"topic": "ring", "given": {"ranks": 8}}'));
  assert.strictEqual(answer.result.kind, "explanation");
}

function refused(what, method, request) {
  const answer = JSON.parse(core.ask(method, request));
  assert.ok(answer.error, `${what} is answered`);
  assert.match(answer.error.message, /\S/, what);
  answers();
}

answers();
refused("no method", "", "{}");
refused("a method of many bytes", "x".repeat(LARGE), "{}");
refused("no JSON", "plan", "{");
refused("bytes that are no text", "plan", '{"model": "\u0000\uffff"}');
refused("another type", "plan", "[]");
refused("a number out of range", "plan", '{"model": "gpt2", "cluster": "h100-8", "tp": 1e400}');
refused("deep lists", "plan", "[".repeat(LARGE));
refused("deep lists that end", "plan", `{"files": {"a": ${"[".repeat(LARGE)}${"]".repeat(LARGE)}}}`);
refused("deep TOML", "plan", JSON.stringify({ run_file: "a", files: { a: `a = ${"[".repeat(LARGE)}` } }));
refused("a split too large", "plan", '{"model": "gpt2", "cluster": "h100-8", "set": ["train.recompute=every-99999999999999999999"]}');

// As where the stack overflows, or a bug traps.
assert.throws(() => core.ask("search", SEARCH), CoreFailed);
answers();

const check = here("../build-wasm/runtime_check.wasm");
if (existsSync(check)) {
  const { run } = instantiate(new WebAssembly.Module(readFileSync(check)), {}).exports;
  assert.strictEqual(run(), 0, "the check of wasm/runtime/check.cc with this number fails");
}
console.log(`traps: every request was answered or failed alone${existsSync(check) ? ", and exceptions work" : ""}`);
