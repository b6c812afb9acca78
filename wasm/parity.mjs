// Asks the core in WebAssembly random requests and compares its answers with the native ones, byte by
// byte: with respond()'s, and with what the command prints. Exits with 77, which CTest calls skipped,
// where node is too old or there is no core.
// Usage: node wasm/parity.mjs REQUESTS_PROGRAM [COUNT] [SEED] [CORE]
//   REQUESTS_PROGRAM   build/bin/requests
//   COUNT              how many requests; else 300, or 5,000 with TESSERA_TEST_ALL in the environment
//   CORE               a .wasm file or a page; else the committed page, else build-wasm/core.wasm
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { findCore } from "./find_core.mjs";
import { indented } from "./indented.mjs";
import { Core, readCore } from "./node_core.mjs";

const MOST_SHOWN = 5;
const MOST_BYTES = 256 << 20; // of an instance that is asked again

// Empty, or how the answer differs from the native ones.
function difference(line, answer) {
  if (answer !== line.answer) return ["the native call", line.answer, answer];
  if (line.printed === undefined) return null;
  const { result } = partsOf(answer);
  const printed = result === undefined ? "" : `${indented(result)}\n`;
  return printed === line.printed ? null : ["the command", line.printed, printed];
}

// The text of "result", which is all of the answer but its frame.
function partsOf(answer) {
  const head = '{"result":';
  return answer.startsWith(head) ? { result: answer.slice(head.length, -1) } : {};
}

function show(line, [whose, expected, got]) {
  let at = 0;
  while (expected[at] === got[at] && at < expected.length) ++at;
  const near = (text) => JSON.stringify(text.slice(Math.max(0, at - 60), at + 60));
  console.log(`${line.method} ${line.request.slice(0, 2000)}`);
  console.log(`  byte ${at}: ${whose} says ${near(expected)}\n  WebAssembly says ${near(got)}`);
}

async function compare(program, count, seed, core) {
  const child = spawn(program, [`${count}`, `${seed}`, "--calls"], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((done) => child.on("close", done));
  const totals = { asked: 0, printed: 0, refused: 0, different: 0, bytes: 0, methods: new Map() };
  for await (const text of createInterface({ input: child.stdout })) {
    const line = JSON.parse(text);
    const answer = core.ask(line.method, line.request);
    if (core.memoryBytes > MOST_BYTES) core.forget();
    const found = difference(line, answer);
    if (found && ++totals.different <= MOST_SHOWN) show(line, found);
    ++totals.asked;
    totals.printed += line.printed === undefined ? 0 : 1;
    totals.refused += answer.startsWith('{"error"') ? 1 : 0;
    totals.bytes += answer.length;
    totals.methods.set(line.method, (totals.methods.get(line.method) ?? 0) + 1);
  }
  const code = await ended;
  if (code !== 0) throw new Error(`${program} ended with ${code}`);
  return totals;
}

const [program, countText = "0", seed = "1", corePath] = process.argv.slice(2);
const count = Number(countText) || (process.env.TESSERA_TEST_ALL ? 5000 : 300);
const path = corePath ?? findCore();
const totals = await compare(program, count, seed, new Core(readCore(path)));
const methods = [...totals.methods].map(([name, times]) => `${name} ${times}`).join(", ");
console.log(
  `parity: ${totals.asked} requests (${methods}), ${totals.refused} of them refused, ${totals.printed} compared ` +
    `with the command too, ${totals.bytes} characters, ${totals.different} different (${path})`,
);
process.exit(totals.different === 0 && totals.asked === count ? 0 : 1);
