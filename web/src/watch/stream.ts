// Lines of a run as its server sends them. A browser keeps six connections to a host, so all tabs
// that watch a run share one: the tab that holds the run's lock listens and tells the others. When
// it goes, the next one listens on from the last line that it heard of.
import { eventsUrl } from './api';

export interface Message {
  kind: 'line' | 'state' | 'journal' | 'reset' | 'open' | 'gone' | 'hello';
  id: string; // of a line: the place behind it
  data: string;
  at: number; // when it came, ms
}
const kRetryMs = 1000;

export class Stream {
  private readonly channel: BroadcastChannel | undefined;
  private readonly over = new AbortController();
  private source: EventSource | undefined;
  private at = '0';
  private state: Message | undefined;
  private letGo = () => {};

  constructor(
    private readonly run: string,
    private readonly hear: (message: Message) => void,
  ) {
    // Without locks (a server beyond loopback, without TLS) every tab has a connection of its own.
    if (!navigator.locks || !globalThis.BroadcastChannel) return;
    this.channel = new BroadcastChannel(`tessera ${run}`);
    this.channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data.kind !== 'hello') this.take(data);
      else if (this.source && this.state) this.channel!.postMessage(this.state);
    };
  }

  begin(from: string) {
    this.at = from;
    if (!this.channel) return this.listen();
    this.channel.postMessage({ kind: 'hello' });
    const listen = () => {
      this.listen();
      return new Promise<void>((done) => (this.letGo = done));
    };
    navigator.locks.request(`tessera ${this.run}`, { signal: this.over.signal }, listen).catch(() => {});
  }

  close() {
    this.over.abort();
    this.source?.close();
    this.channel?.close();
    this.letGo();
  }

  private take(message: Message) {
    if (message.kind === 'line') this.at = message.id;
    if (message.kind === 'reset') this.at = '0';
    if (message.kind === 'state') this.state = message;
    this.hear(message);
  }

  private listen() {
    if (this.over.signal.aborted) return;
    const source = (this.source = new EventSource(eventsUrl(this.run, this.at)));
    const say = (kind: Message['kind'], event?: MessageEvent<string>) => {
      const message = { kind, id: event?.lastEventId ?? '', data: event?.data ?? '', at: Date.now() };
      this.channel?.postMessage(message);
      this.take(message);
    };
    source.onopen = () => say('open');
    source.onmessage = (event: MessageEvent<string>) => say('line', event);
    for (const kind of ['state', 'journal', 'reset'] as const)
      source.addEventListener(kind, (event) => say(kind, event));
    source.onerror = () => {
      say('gone');
      // Refused, not lost: it does not come back by itself.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.listen(), kRetryMs);
    };
  }
}
