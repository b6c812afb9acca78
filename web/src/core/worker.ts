// A thread that asks the core. The page stays free; a request is cancelled by ending the thread.
import { CoreInstance } from './instance';

export interface Asked {
  id: number;
  method: string;
  request: string;
}
export interface ToWorker {
  module?: WebAssembly.Module;
  asked?: Asked[];
}
export interface FromWorker {
  id: number;
  text?: string;
  trap?: string;
  progress?: string;
}

const kMostBytesKept = 256 * 2 ** 20;
// What was answered within so long goes in one message: a message costs the page more than a small answer.
const kTogetherMs = 4;
const post = (message: FromWorker[]) => (self as unknown as Worker).postMessage(message);

let core: CoreInstance | undefined;
let current = 0;

function answered({ id, method, request }: Asked): FromWorker {
  current = id;
  try {
    const text = core!.ask(method, request);
    if (core!.bytes > kMostBytesKept) core!.renew();
    return { id, text };
  } catch (error) {
    return { id, trap: String(error) };
  }
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.module) {
    core = new CoreInstance(data.module, (progress) => {
      post([{ id: current, progress }]);
      return true;
    });
  }
  let ready: FromWorker[] = [];
  let since = performance.now();
  for (const one of data.asked ?? []) {
    ready.push(answered(one));
    if (performance.now() - since < kTogetherMs) continue;
    post(ready);
    ready = [];
    since = performance.now();
  }
  if (ready.length > 0) post(ready);
};
