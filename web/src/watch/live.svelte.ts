// A run that is watched: its history, then every line as it is written, each once. The server may go
// and come back.
import {
  journalOf,
  planOf,
  seriesOf,
  summaryOf,
  type Line,
  type PlannedRun,
  type RunEntry,
  type RunSummary,
} from './api';
import { Stream, type Message } from './stream';
import { Track } from './track';

const kRedrawMs = 100; // many lines in a moment are drawn once
const kRetryMs = 1000;
const kMostPoints = 6000; // more are asked for again, made smaller by the server

// LINE.OFFSET.KEY: the number of a line, and the mark of the file that it is in.
function placeOf(id: string) {
  const [line, , key = ''] = id.split('.');
  return { line: Number(line), key };
}

export class LiveRun {
  readonly track: Track;
  version = $state(0); // grows with every change of the track
  plan = $state.raw<PlannedRun | undefined>();
  summary = $state.raw<RunSummary | undefined>();
  state = $state('');
  reason = $state('');
  ageMs = $state(0);
  connected = $state(true);
  error = $state.raw<Error | undefined>();
  private has: RunEntry['has'] = {};
  private stream: Stream | undefined;
  private place: ReturnType<typeof placeOf> | undefined;
  private waiting: Message[] | undefined; // lines that come while the history is read
  private drawing: ReturnType<typeof setTimeout> | undefined;
  private heard = Date.now();
  private ended = false;
  private journalsAsked = 0;
  private journalShown = 0; // 0: none was read yet
  private readonly ticking = setInterval(() => this.hear(this.heard), 1000);

  constructor(readonly id: string) {
    this.track = new Track(id);
  }

  // What the list of runs says of it. Only what may still grow is followed.
  know(entry: RunEntry) {
    const live = entry.state === 'running' || entry.state === 'stale';
    const changed = live !== (this.stream !== undefined);
    this.has = entry.has;
    if (!this.stream) [this.state, this.reason] = [entry.state, entry.reason];
    if (changed && live) {
      this.hear(Date.now() - (entry.age_s ?? 0) * 1000);
      this.stream = new Stream(this.id, (message) => this.take(message));
    } else if (changed) {
      this.stream!.close();
      this.stream = undefined;
      this.connected = true;
      [this.state, this.reason] = [entry.state, entry.reason];
    }
    if (changed || !this.place) void this.read(changed);
    else void this.readFiles();
  }

  // When its last line came. The head says its age at once, and again every second.
  private hear(at: number) {
    this.heard = at;
    this.ageMs = Date.now() - at;
  }

  stop() {
    this.ended = true;
    this.stream?.close();
    clearInterval(this.ticking);
    clearTimeout(this.drawing);
  }

  private async read(follow = false) {
    if (this.waiting) return;
    this.waiting = [];
    try {
      for (let complete = false; !complete;) {
        const series = await seriesOf(this.id);
        if (this.ended) return;
        this.track.begin(series);
        this.changed();
        const before = this.place?.key;
        this.place = placeOf(series.next);
        if (before && before !== this.place.key) this.forget();
        complete = series.complete;
        if (complete && follow) this.stream?.begin(series.next);
      }
      this.error = undefined;
    } catch (error) {
      if (this.ended) return;
      if (error instanceof TypeError) this.connected = false;
      else this.error = error as Error;
      this.waiting = undefined;
      setTimeout(() => !this.ended && this.read(follow), kRetryMs);
      return;
    }
    const waited = this.waiting;
    this.waiting = undefined;
    waited.forEach((message) => this.take(message));
    await this.readFiles();
  }

  // Another run is in its place.
  private forget() {
    this.plan = this.summary = undefined;
    this.journalShown = 0;
    this.track.journal = [];
  }

  // All of it, at every change: none is missed while there is no server, and none is there twice.
  private async readJournal() {
    const number = ++this.journalsAsked;
    const told = await journalOf(this.id).catch(() => undefined); // else with the next list of runs
    if (this.ended || !told || number < this.journalShown) return;
    this.journalShown = number;
    this.track.journal = told.events;
    this.changed();
  }

  private async readFiles() {
    if (this.has.journal && this.journalShown === 0) void this.readJournal();
    try {
      if (this.has.plan) this.plan ??= await planOf(this.id);
      this.summary = this.has.summary ? (this.summary ?? (await summaryOf(this.id))) : undefined;
    } catch {
      // Asked for again with the next list of runs.
    }
  }

  private take(message: Message) {
    if (message.kind === 'open') this.connected = true;
    if (message.kind === 'gone') this.connected = false;
    if (message.kind === 'reset') void this.read();
    if (message.kind === 'state') this.takeState(message);
    if (message.kind === 'journal') void this.readJournal();
    if (message.kind === 'line') this.takeLine(message);
  }
  private takeState({ data, at }: Message) {
    const said = JSON.parse(data) as { state: string; reason: string; age_s: number | null };
    [this.state, this.reason] = [said.state, said.reason];
    if (said.age_s !== null) this.hear(at - said.age_s * 1000);
  }
  private takeLine(message: Message) {
    this.hear(message.at);
    this.connected = true;
    if (this.waiting) return void this.waiting.push(message);
    const { line, key } = placeOf(message.id);
    const { line: last, key: ours } = this.place ?? { line: 0, key: '' };
    const another = ours !== '' && key !== ours;
    // Another file, lines that this tab did not hear of, or more points than are drawn well.
    if (another || line > last + 1 || this.track.points.step.length > kMostPoints) return void this.read();
    if (line <= last) return;
    this.place = { line, key };
    this.track.add(JSON.parse(message.data) as Line);
    this.changed();
  }

  private changed() {
    this.drawing ??= setTimeout(() => {
      this.drawing = undefined;
      ++this.version;
    }, kRedrawMs);
  }
}
