// The one door to the core. Everything that the page shows was asked here.
import { loadModule } from './module';
import type { Asked, FromWorker } from './worker';
import CoreWorker from './worker?worker&inline';

export type Request = Record<string, unknown>;

// What the core refused: its message, and the exit code that the command would have.
export class Refusal extends Error {
  constructor(
    message: string,
    readonly code: number,
  ) {
    super(message);
  }
}

export interface Core {
  // The result of a method; throws a Refusal. Answers come in the order of the questions. `aside` is
  // a second thread, for what must not keep the picture waiting.
  ask<T>(method: string, request: Request, aside?: boolean): Promise<T>;
  // What may be asked soon, the likeliest first: worked out on a thread of its own, so that its answer
  // is at hand. A newer list takes the place of an older one.
  ahead?(method: string, requests: Request[]): void;
  // The same on a thread of its own, with progress; ends when `signal` says so.
  askAlone<T>(
    method: string,
    request: Request,
    on: (progress: unknown) => void,
    signal: AbortSignal,
  ): Promise<T>;
}

interface Waiting {
  resolve(text: string): void;
  reject(error: Error): void;
  progress?: (progress: unknown) => void;
}

class CoreThread {
  private readonly worker = new CoreWorker();
  private readonly waiting = new Map<number, Waiting>();
  private next = 1;
  private asked: Asked[] = []; // to be sent together

  constructor(module: WebAssembly.Module) {
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker[]>) =>
      data.forEach((one) => this.receive(one));
    this.worker.postMessage({ module });
  }

  ask(method: string, request: string, progress?: (progress: unknown) => void): Promise<string> {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, progress });
      if (this.asked.push({ id, method, request }) === 1) queueMicrotask(() => this.send());
    });
  }
  private send() {
    this.worker.postMessage({ asked: this.asked });
    this.asked = [];
  }

  end(why: Error) {
    this.worker.terminate();
    for (const { reject } of this.waiting.values()) reject(why);
    this.waiting.clear();
  }

  private receive({ id, text, trap, progress }: FromWorker) {
    const waiting = this.waiting.get(id);
    if (!waiting) return;
    if (progress !== undefined) {
      waiting.progress?.(JSON.parse(progress));
      return;
    }
    this.waiting.delete(id);
    if (text !== undefined) waiting.resolve(text);
    else waiting.reject(new Error(`The core stopped: ${trap}`));
  }
}

function resultOf<T>(text: string): T {
  const answer = JSON.parse(text) as { result?: T; error?: { code: number; message: string } };
  if (answer.error) throw new Refusal(answer.error.message, answer.error.code);
  return answer.result as T;
}

let loading: Promise<WebAssembly.Module> | undefined;
const module = () =>
  (loading ??= loadModule().then((loaded) => {
    performance.mark('core'); // the end of first load, for who measures it
    return loaded;
  }));
const threads: Promise<CoreThread>[] = [];
const thread = (number: number) => (threads[number] ??= module().then((loaded) => new CoreThread(loaded)));

// The answer's text to a request's text, as they are.
export const respond = async (method: string, request: string) => (await thread(0)).ask(method, request);

// The same question has the same answer: the newest are kept as texts.
const kMostKnown = 128;
const kLongestKnown = 1 << 18;
const known = new Map<string, string>();
async function knownOrAsked(method: string, request: Request, number: number): Promise<string> {
  const body = JSON.stringify(request);
  const key = `${method} ${body}`;
  const text = known.get(key) ?? (await (await thread(number)).ask(method, body));
  if (text.length <= kLongestKnown) known.set(key, text);
  if (known.size > kMostKnown) known.delete(known.keys().next().value!);
  return text;
}

function workerCore(): Core {
  let lists = 0;
  return {
    async ask<T>(method: string, request: Request, aside = false) {
      return resultOf<T>(await knownOrAsked(method, request, aside ? 1 : 0));
    },
    async ahead(method: string, requests: Request[]) {
      const mine = ++lists;
      for (const request of requests) {
        if (mine === lists) await knownOrAsked(method, request, 2).catch(() => '');
      }
    },
    async askAlone<T>(
      method: string,
      request: Request,
      on: (progress: unknown) => void,
      signal: AbortSignal,
    ) {
      const alone = new CoreThread(await module());
      const stop = () => alone.end(new DOMException('cancelled', 'AbortError'));
      signal.addEventListener('abort', stop);
      try {
        return resultOf<T>(await alone.ask(method, JSON.stringify(request), on));
      } finally {
        signal.removeEventListener('abort', stop);
        alone.end(new DOMException('ended', 'AbortError'));
      }
    },
  };
}

let core: Core | undefined;
export const theCore = (): Core => (core ??= workerCore());
// Tests put another one in its place.
export function useCore(other: Core | undefined) {
  core = other;
}
