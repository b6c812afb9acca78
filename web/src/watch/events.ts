// Events of a run in words. A line with "event" says what happened: known ones get a sentence, others
// their fields as they are.
import { count, seconds } from '../format/format';
import type { Line, PlannedRun, RunSummary } from './api';
import type { Track } from './track';

export interface EventRow {
  step?: number;
  text: string;
  bad: boolean;
}

const kHead = new Set(['event', 'step', 'time']);
const kBad = new Set(['nan', 'failed', 'lost', 'unreadable']);
const shown = (value: unknown) =>
  typeof value === 'number' ? count(value) : typeof value === 'string' ? value : JSON.stringify(value);
const fields = (line: Line, without: string[] = []) =>
  Object.entries(line)
    .filter(([key]) => !kHead.has(key) && !without.includes(key))
    .map(([key, value]) =>
      key.endsWith('_ms') && typeof value === 'number'
        ? `${key.slice(0, -3).replaceAll('_', ' ')} ${seconds(value / 1e3)}`
        : `${key.replaceAll('_', ' ')} ${shown(value)}`,
    )
    .join(', ');

function textOf(line: Line): string {
  const said = line.message ?? line.text;
  const rest = fields(line, ['message', 'text']);
  return `${line.event}${typeof said === 'string' ? `: ${said}` : ''}${rest && `${said ? '; ' : ': '}${rest}`}`;
}

// The last one first. What is not a number is an event too; the line that says so is not said twice.
export function eventsOf(track: Track, until = Infinity): EventRow[] {
  const said = new Set(track.events.filter((line) => line.event === 'nan').map((line) => line.step));
  const rows = [
    ...track.notFinite
      .filter((mark) => !said.has(mark.step))
      .map(({ step, key, value }) => ({ step, text: `${key} is ${value}`, bad: true })),
    ...track.events.map((line) => ({ step: line.step, text: textOf(line), bad: kBad.has(line.event ?? '') })),
  ];
  const order = (row: EventRow) => row.step ?? 0;
  return rows
    .filter((row) => order(row) <= until)
    .reverse()
    .sort((a, b) => order(b) - order(a));
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
