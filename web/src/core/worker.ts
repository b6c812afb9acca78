// A thread that asks the core. The page stays free; a request is cancelled by ending the thread.
import { CoreInstance } from './instance';

export interface ToWorker {
  module?: WebAssembly.Module;
  id?: number;
  method?: string;
  request?: string;
}
export interface FromWorker {
  id: number;
  text?: string;
  trap?: string;
  progress?: string;
}

const kMostBytesKept = 256 * 2 ** 20;
const post = (message: FromWorker) => (self as unknown as Worker).postMessage(message);

let core: CoreInstance | undefined;
let current = 0;

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.module) {
    core = new CoreInstance(data.module, (progress) => {
      post({ id: current, progress });
      return true;
    });
    return;
  }
  current = data.id!;
  try {
    post({ id: current, text: core!.ask(data.method!, data.request!) });
    if (core!.bytes > kMostBytesKept) core!.renew();
  } catch (error) {
    post({ id: current, trap: String(error) });
  }
};
