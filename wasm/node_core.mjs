// The core under node: asks core.wasm as the page's worker does (wasm/README.md has the protocol).
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const BAD_FILE = 8; // EBADF: there are no files, and standard output leads nowhere

function bytesOfPage(html) {
  const found = /<script[^>]*\sid="core"[^>]*>([^<]*)<\/script>/.exec(html);
  if (!found) throw new Error('the page has no <script id="core">: build it again');
  return gunzipSync(Buffer.from(found[1], "base64"));
}

// The module in `path`: a .wasm file, or a page that holds one (.html, .html.gz).
export function readCore(path) {
  const bytes = readFileSync(path);
  if (path.endsWith(".wasm")) return bytes;
  return bytesOfPage((path.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("latin1"));
}

// An instance of a module of this folder, with `env` as its own imports.
export function instantiate(module, env) {
  const bad = () => BAD_FILE;
  const exit = (code) => {
    throw new Error(`exit ${code}`);
  };
  const wasi = { fd_close: bad, fd_seek: bad, fd_write: bad, proc_exit: exit };
  const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi, env });
  instance.exports._initialize();
  return instance;
}

// A request ended without an answer. The core works again: the next request gets a fresh instance.
export class CoreFailed extends Error {}

export class Core {
  #module;
  #instance = null;
  #onProgress;

  // `onProgress` is given every progress of a search, and stops it by returning true.
  constructor(bytes, onProgress = () => false) {
    this.#module = new WebAssembly.Module(bytes);
    this.#onProgress = onProgress;
  }

  // The answer as text: {"result": …} or {"error": {"code", "message"}}. `request` is JSON as text.
  ask(method, request) {
    this.#instance ??= this.#start();
    try {
      const { input, call, out_ptr: pointer, out_len: length } = this.#instance.exports;
      const bytes = Buffer.from(`${method}\n${request}`);
      const room = input(bytes.length);
      if (room === 0) throw new Error(`no memory for a request of ${bytes.length} bytes`);
      this.#memory(room, bytes.length).set(bytes);
      call();
      return Buffer.from(this.#memory(pointer(), length())).toString();
    } catch (error) {
      this.#instance = null;
      throw new CoreFailed(`${method}: the core ended without an answer: ${error.message}`, { cause: error });
    }
  }

  // Bytes that the instance holds; they never become fewer.
  get memoryBytes() {
    return this.#instance?.exports.memory.buffer.byteLength ?? 0;
  }

  // Gives the memory back.
  forget() {
    this.#instance = null;
  }

  #memory(pointer, length) {
    return new Uint8Array(this.#instance.exports.memory.buffer, pointer, length);
  }

  #start() {
    const progress = (pointer, length) =>
      this.#onProgress(JSON.parse(Buffer.from(this.#memory(pointer, length)).toString())) ? 1 : 0;
    return instantiate(this.#module, { progress });
  }
}
