// What happened in a run, in words: lines of events.jsonl, and those of metrics.jsonl with an "event".
// Known kinds get a sentence, others their fields as they are: a later program may write more kinds.
import { count, seconds, significant } from '../format/format';
import type { Line, PlannedRun, RunSummary } from './api';
import type { Track } from './track';

// How a mark on the curves looks: a tick at the axis, a line through the chart, or a line of bad news.
export type Weight = 'quiet' | 'notable' | 'bad';
export interface EventRow {
  step?: number;
  time?: number; // Unix time
  rank?: number;
  text: string;
  bad: boolean;
  mark?: { weight: Weight; name: string };
}

const kHead = new Set(['event', 'step', 'time', 'rank']);
const kBad = new Set(['nan', 'failed', 'lost', 'unreadable', 'save failed', 'partitioned']);
const numberOf = (value: unknown) =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
const shown = (value: unknown) =>
  typeof value === 'number' ? count(value) : typeof value === 'string' ? value : JSON.stringify(value);
// Fields by their names, times with their units.
function fields(line: Line, without: string[] = []): string {
  const said = (key: string, value: unknown) => {
    const number = numberOf(value);
    const name = key.replaceAll('_', ' ');
    if (number !== undefined && key.endsWith('_ms')) return `${name.slice(0, -3)} ${seconds(number / 1e3)}`;
    if (number !== undefined && key === 'seconds') return `took ${seconds(number)}`;
    return `${name} ${shown(value)}`;
  };
  return Object.entries(line)
    .filter(([key]) => !kHead.has(key) && !without.includes(key))
    .map(([key, value]) => said(key, value))
    .join(', ');
}
function anyText(line: Line): string {
  const told = ['message', 'text', 'reason'].find((key) => typeof line[key] === 'string');
  const rest = fields(line, told ? [told] : []);
  return `${line.event}${told ? `: ${line[told]}` : ''}${rest && `${told ? '; ' : ': '}${rest}`}`;
}

const whoOf = (line: Line) => (numberOf(line.rank) === undefined ? 'a rank' : `rank ${line.rank}`);
const tookOf = (line: Line) =>
  numberOf(line.seconds) === undefined ? '' : `, took ${seconds(line.seconds as number)}`;
// The rank is named before it.
function reasonOf(line: Line): string {
  const said = line.reason ?? line.message;
  return typeof said === 'string' ? `: ${said.replace(/^rank \d+ (\(pid \d+\) )?(is lost: )?/, '')}` : '';
}
const forOf = (line: Line) =>
  numberOf(line.seconds) === undefined ? '' : ` for ${significant(line.seconds as number, 3)} s`;
const phaseOf = (line: Line) => (typeof line.phase === 'string' ? ` in ${line.phase}` : '');

const kVerdicts: Record<string, (line: Line) => string> = {
  lost: (line) => `${whoOf(line)} is lost${phaseOf(line)}${reasonOf(line)}`,
  stopped: (line) => `${whoOf(line)} has been stopped${forOf(line)}${phaseOf(line)}`,
  hung: (line) => `${whoOf(line)} has hung${forOf(line)}${phaseOf(line)}, and all others wait for it`,
  slow: (line) =>
    `${whoOf(line)} is slow: ${seconds((numberOf(line.compute_ms) ?? NaN) / 1e3)} of its own in a step, ` +
    `where ${seconds((numberOf(line.median_ms) ?? NaN) / 1e3)} are usual`,
  partitioned: (line) => `${whoOf(line)} is cut off with its host${phaseOf(line)}${reasonOf(line)}`,
  corrupt: (line) => {
    const odd = Array.isArray(line.ranks) && line.majority === false ? line.ranks : [];
    const who =
      odd.length > 1 ? `ranks ${odd.join(' and ')} differ` : `${whoOf(line)} differs from its replicas`;
    return `${who}${typeof line.what === 'string' ? ` in '${line.what}'` : ''}`;
  },
};
interface Kind {
  weight: Weight;
  name?: (line: Line) => string; // beside its mark
  text: (line: Line) => string;
}
const left = (value: unknown) =>
  numberOf(value) === undefined ? '' : `, ${count(value as number)} restart${value === 1 ? '' : 's'} left`;
const kKinds: Record<string, Kind> = {
  save: { weight: 'quiet', text: (line) => `saved${tookOf(line)}` },
  'save failed': { weight: 'bad', text: (line) => `save failed${reasonOf(line)}${tookOf(line)}` },
  'save skipped': { weight: 'notable', text: (line) => `save skipped${reasonOf(line)}` },
  resume: {
    weight: 'notable',
    text: (line) => `goes on after step ${shown(line.step)}${placeOf(line)}${tookOf(line)}`,
  },
  restart: {
    weight: 'notable',
    text: (line) =>
      `all ranks start again as generation ${shown(line.generation)}${typeof line.reason === 'string' ? `: ${whoOf(line)} ${line.reason}` : ''}${left(line.restarts_left)}`,
  },
  'goes on': {
    weight: 'notable',
    text: (line) => `${whoOf(line)} goes on${forOf(line).replace(' for', ' after')}`,
  },
  spare: {
    weight: 'notable',
    text: (line) => `the spare with pid ${String(line.pid)} is ${whoOf(line)} now`,
  },
  shrink: { weight: 'notable', text: (line) => `goes on without lost replicas: ${resized(line)}` },
  grow: { weight: 'notable', text: (line) => `grows again: ${resized(line)}` },
  'spare lost': { weight: 'bad', text: (line) => `the spare with pid ${String(line.pid)} has died` },
};
// Where a run goes on from: the memory that ranks share with their agent, or a folder.
const placeOf = ({ memory, checkpoint }: Line) =>
  memory === true ? ' of the snapshot in memory' : typeof checkpoint === 'string' ? ` of ${checkpoint}` : '';
// Ranks that come or go with their replicas.
const resized = (line: Line) =>
  `${shown(line.ranks)} ranks instead of ${shown(line.before)}` +
  `${numberOf(line.generation) === undefined ? '' : `, as generation ${line.generation}`}` +
  `${typeof line.reason === 'string' && line.reason !== '' ? `: ${line.reason}` : ''}`;
function kindOf(line: Line): Kind {
  const named = line.event === 'verdict' ? String(line.verdict) : '';
  const verdict = Object.hasOwn(kVerdicts, named) && kVerdicts[named];
  if (verdict) return { weight: 'bad', name: (of) => `${whoOf(of)} ${String(of.verdict)}`, text: verdict };
  // Of the kind's shape, or an older program's line of the same name.
  const known = Object.hasOwn(kKinds, line.event ?? '') ? kKinds[line.event!] : undefined;
  if (known && line.from === undefined) return known;
  const bad = kBad.has(line.event ?? '') || line.event === 'verdict';
  return { weight: bad ? 'bad' : 'notable', text: anyText };
}
const kLongest = 400; // characters of a text from a run
const cut = (text: string) => (text.length > kLongest ? `${text.slice(0, kLongest)}…` : text);

function rowOf(line: Line, step: number | undefined): EventRow {
  const kind = kindOf(line);
  return {
    step,
    time: numberOf(line.time),
    rank: numberOf(line.rank),
    text: cut(kind.text(line)),
    bad: kind.weight === 'bad',
    mark: { weight: kind.weight, name: cut(kind.name?.(line) ?? String(line.event)) },
  };
}

// In the order in which they happened; those that name no step are at that of the event before.
function rowsOf(lines: Line[]): EventRow[] {
  let last: number | undefined;
  return lines.map((line) => rowOf(line, (last = numberOf(line.step) ?? last)));
}

// The last one first. What is not a number is an event too; the line that says so is not said twice.
export function eventsOf(track: Track, until = Infinity): EventRow[] {
  const said = new Set(track.events.filter((line) => line.event === 'nan').map((line) => line.step));
  const odd: EventRow[] = track.notFinite
    .filter((mark) => !said.has(mark.step))
    .map(({ step, key, value }) => ({ step, text: `${key} is ${value}`, bad: true }));
  const all = [...rowsOf(track.events), ...rowsOf(track.journal), ...odd];
  const rows = all.filter((row) => row.time !== undefined).sort((a, b) => a.time! - b.time!);
  // What has no time stands behind the last one that is not of a later step.
  for (const row of all.filter(({ time }) => time === undefined)) {
    let place = rows.length;
    while (place > 0 && (rows[place - 1]!.step ?? 0) > (row.step ?? Infinity)) --place;
    rows.splice(place, 0, row);
  }
  return rows.filter((row) => (row.step ?? 0) <= until).reverse();
}

// What stands on the curves: of the events of a step the first of the weightiest, in the order of steps.
export interface EventMark {
  step: number;
  weight: Weight;
  name: string;
}
const kWeights: Weight[] = ['quiet', 'notable', 'bad'];
export function marksOf(rows: EventRow[]): EventMark[] {
  const marks = new Map<number, EventMark>();
  for (const { step, mark } of [...rows].reverse()) {
    if (step === undefined || !mark) continue;
    const there = marks.get(step);
    if (!there || kWeights.indexOf(mark.weight) > kWeights.indexOf(there.weight))
      marks.set(step, { step, ...mark });
  }
  return [...marks.values()].sort((a, b) => a.step - b.step);
}

// What a run that ended says of its plan.
export function verdictOf(plan: PlannedRun, { ranks, straggler }: RunSummary): EventRow {
  const differ = ranks.filter((rank, i) => JSON.stringify(rank) !== JSON.stringify(plan.ranks[i]));
  const slow = straggler ? `; rank ${straggler.rank} computed ${straggler.more_pct.toFixed(1)} % longer` : '';
  if (differ.length === 0)
    return { text: `every rank: memory, traffic and executed program equal the plan${slow}`, bad: false };
  return {
    text: `rank ${differ[0]!.rank} and ${differ.length - 1} others differ from the plan${slow}`,
    bad: true,
  };
}
