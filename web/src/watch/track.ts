// The points of one run, as they come: what the server decimated first, then every line. Keys are
// names in a line, with a dot for what lies in an object (phase_ms.forward).
import type { Line, Series } from './api';

type Columns = Map<string, (number | null)[]>;
export interface Points {
  step: number[];
  values: Columns;
  low: Columns;
  high: Columns;
}
export interface NotFinite {
  step: number;
  key: string;
  value: string;
}

const kNotFinite = new Set(['NaN', 'Infinity', '-Infinity']);

// Numbers of a line by their keys; objects one level deep.
export function numbersOf(line: Line): [string, number | string][] {
  const found: [string, number | string][] = [];
  const take = (key: string, value: unknown) => {
    if (typeof value === 'number' || kNotFinite.has(value as string)) found.push([key, value as number]);
  };
  for (const [key, value] of Object.entries(line)) {
    if (key === 'step') continue;
    take(key, value);
    if (!value || typeof value !== 'object' || Array.isArray(value)) continue;
    for (const [inner, number] of Object.entries(value)) take(`${key}.${inner}`, number);
  }
  return found;
}

const empty = (): Points => ({ step: [], values: new Map(), low: new Map(), high: new Map() });
const columnsOf = ({ values, low, high }: Points) =>
  [values, low, high].flatMap((columns) => [...columns.values()]);

export class Track {
  points = empty();
  notFinite: NotFinite[] = [];
  events: Line[] = []; // among the lines of steps
  journal: Line[] = []; // what happened to the run, in order
  last: Line | undefined;

  // `source`: the run that a server can be asked for again; undefined: a file.
  constructor(readonly source?: string) {}

  begin(series: Series) {
    this.points = empty();
    this.points.step = [...series.step];
    for (const key of series.keys) {
      const band = series.series[key];
      if (!band) continue;
      this.points.values.set(key, [...band.mean]);
      if (!band.low || !band.high) continue;
      this.points.low.set(key, [...band.low]);
      this.points.high.set(key, [...band.high]);
    }
    this.notFinite = [...series.not_finite];
    this.events = [];
    series.events.forEach((line) => this.takeEvent(line));
    this.last = series.last ?? undefined;
  }

  // A line that was just written. A run that resumed at an earlier step replaces what it had after it.
  add(line: Line) {
    if (line.event !== undefined) return this.takeEvent(line);
    if (typeof line.step !== 'number') return;
    this.cutFrom(line.step);
    this.last = line;
    const { step, values, low, high } = this.points;
    step.push(line.step);
    for (const [key, value] of numbersOf(line)) {
      if (!values.has(key)) values.set(key, Array(step.length - 1).fill(null));
      const finite = typeof value === 'number' ? value : null;
      for (const columns of [values, low, high]) columns.get(key)?.push(finite);
      if (finite === null) this.notFinite.push({ step: line.step, key, value: String(value) });
    }
    for (const column of columnsOf(this.points)) if (column.length < step.length) column.push(null);
  }

  // The line that ends a run at NaN is an event: its values are marked as those of a step are.
  private takeEvent(line: Line) {
    this.events.push(line);
    const step = line.step;
    if (typeof step !== 'number') return;
    for (const [key, value] of numbersOf(line)) {
      if (typeof value === 'string') this.notFinite.push({ step, key, value });
    }
  }

  private cutFrom(first: number) {
    const { step } = this.points;
    let kept = step.length;
    while (kept > 0 && step[kept - 1]! >= first) --kept;
    if (kept < step.length || this.notFinite.some((mark) => mark.step >= first))
      this.notFinite = this.notFinite.filter((mark) => mark.step < first);
    if (kept === step.length) return;
    step.length = kept;
    for (const column of columnsOf(this.points)) column.length = kept;
  }

  has(key: string): boolean {
    return this.points.values.has(key);
  }
  // The value at the last point that is not after `step`.
  at(key: string, step: number): number | null {
    const steps = this.points.step;
    let low = 0;
    let high = steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle]! <= step) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? null : (this.points.values.get(key)?.[low - 1] ?? null);
  }

  // The same in words; undefined: there is none.
  read(key: string, step: number, format: (value: number) => string): string | undefined {
    const mark = this.notFinite.find((one) => one.key === key && one.step === step);
    const value = mark ? null : this.at(key, step);
    return mark?.value ?? (value === null ? undefined : format(value));
  }

  // As the server does it: at most `most` points, each the mean of its lines, with the least and the most.
  thin(most: number) {
    const { step, values } = this.points;
    const together = Math.ceil(step.length / most);
    if (together <= 1) return;
    const thinner = empty();
    const ends = Array.from({ length: Math.ceil(step.length / together) }, (_, i) =>
      Math.min((i + 1) * together, step.length),
    );
    thinner.step = ends.map((end) => step[end - 1]!);
    for (const [key, column] of values) {
      const [mean, low, high]: (number | null)[][] = [[], [], []];
      ends.forEach((end, i) => {
        const here = column.slice(i * together, end).filter((value) => value !== null);
        const any = here.length > 0;
        mean!.push(any ? here.reduce((sum, value) => sum + value, 0) / here.length : null);
        low!.push(any ? Math.min(...here) : null);
        high!.push(any ? Math.max(...here) : null);
      });
      thinner.values.set(key, mean!);
      thinner.low.set(key, low!);
      thinner.high.set(key, high!);
    }
    this.points = thinner;
  }
}

const kMostPoints = 2000;

// Files that were dropped on the page: of metrics, and what happened to the run.
export function trackOf(text: string, journal = ''): Track {
  const track = new Track();
  track.journal = journal.split('\n').flatMap((line) => {
    try {
      const event = JSON.parse(line) as Line;
      return typeof event.event === 'string' ? [event] : [];
    } catch {
      return []; // as a server does it
    }
  });
  const lines = text.split('\n');
  lines.forEach((line, i) => {
    if (line.trim() === '') return;
    try {
      track.add(JSON.parse(line) as Line);
    } catch {
      // The last line of a run that was killed may be half a line.
      if (i + 1 < lines.length) track.events.push({ event: 'unreadable', line: i + 1 });
    }
  });
  track.thin(kMostPoints);
  return track;
}
