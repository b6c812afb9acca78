// Where the tests take the core from.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const OLDEST_NODE = [20, 19];
const SKIPPED = 77; // CTest's word for it

export const here = (path) => fileURLToPath(new URL(path, import.meta.url));

function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(SKIPPED);
}

// The committed page, which holds the core, else what tools/wasm.sh built; ends as skipped where there is neither,
// and where node is too old for them.
export function findCore() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])) {
    skip(`node is ${process.versions.node}: ${OLDEST_NODE.join(".")} or newer is needed`);
  }
  const known = [here("../web/studio.html.gz"), here("../build-wasm/core.wasm")];
  return known.find(existsSync) ?? skip("no core.wasm: tools/wasm.sh builds it");
}
