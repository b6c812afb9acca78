// One instance of the core: text in, text out. The same file in a worker, in node and in tests.

interface CoreExports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  input(bytes: number): number;
  call(): number;
  out_ptr(): number;
  out_len(): number;
}

// Says whether to go on.
export type OnProgress = (text: string) => boolean;

const kBadFile = 8; // WASI's EBADF: there are no files here

function imports(memory: () => WebAssembly.Memory, progress: OnProgress): WebAssembly.Imports {
  const none = () => 0;
  const text = (at: number, length: number) =>
    new TextDecoder().decode(new Uint8Array(memory().buffer, at, length).slice());
  return {
    wasi_snapshot_preview1: new Proxy(
      {
        fd_prestat_get: () => kBadFile,
        fd_prestat_dir_name: () => kBadFile,
        proc_exit: (code: number) => {
          throw new Error(`the core ended itself with ${code}`);
        },
      } as Record<string, (code: number) => number>,
      { get: (known, name: string) => known[name] ?? none },
    ),
    env: { progress: (at: number, length: number) => (progress(text(at, length)) ? 0 : 1) },
  };
}

export class CoreInstance {
  private exports: CoreExports;

  constructor(
    private readonly module: WebAssembly.Module,
    private readonly progress: OnProgress = () => true,
  ) {
    this.exports = this.fresh();
  }

  // Its answer as text. A trap leaves the instance unusable: it is replaced, and the error thrown.
  ask(method: string, request: string): string {
    try {
      const bytes = new TextEncoder().encode(`${method}\n${request}`);
      const at = this.exports.input(bytes.length);
      new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
      this.exports.call();
      // The buffer is another one where the memory has grown.
      const { memory, out_ptr, out_len } = this.exports;
      return new TextDecoder().decode(new Uint8Array(memory.buffer, out_ptr(), out_len()).slice());
    } catch (error) {
      this.exports = this.fresh();
      throw error;
    }
  }

  get bytes(): number {
    return this.exports.memory.buffer.byteLength;
  }

  // Memory never shrinks: after a large answer the instance is thrown away.
  renew() {
    this.exports = this.fresh();
  }

  private fresh(): CoreExports {
    const made: { exports?: CoreExports } = {};
    const instance = new WebAssembly.Instance(
      this.module,
      imports(() => made.exports!.memory, this.progress),
    );
    made.exports = instance.exports as unknown as CoreExports;
    made.exports._initialize();
    return made.exports;
  }
}
