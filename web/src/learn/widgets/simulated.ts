// A simulated step as marks over time (the core's method `timeline`), for the part Timeline.
import type { Row } from '../../parts/timeline';

export interface SimulatedClass {
  label: string;
  ranks: number;
  compute_s: number;
  update_s: number;
  exposed_s: Record<string, number>;
  communication_s: Record<string, number>;
  memory_bytes: number;
  fullest_bytes: number;
  rows: {
    stream: string;
    marks: [start: number, end: number, pass: number, label: number, ...rest: number[]][];
  }[];
}
export interface Simulated {
  step_s: number;
  tokens_per_s?: number;
  parameters: number;
  world: number;
  passes: string[];
  labels: string[];
  classes: SimulatedClass[];
}

const kColors: Record<string, string> = {
  forward: 'forward',
  backward: 'backward',
  input_grad: 'input-grad',
  weight_grad: 'weight-grad',
  recompute: 'forward',
  update: 'update',
  exposed: 'wait',
  communication: 'communication',
};

export function rowsOf(step: Simulated, of: SimulatedClass): Row[] {
  return of.rows.map((row) => ({
    name: { compute: 'kernels', comm: 'links' }[row.stream] ?? row.stream,
    marks: row.marks.map(([start, end, pass]) => {
      const name = step.passes[pass] ?? '';
      return { start, end, color: kColors[name] ?? 'workspace', hatch: name === 'recompute' };
    }),
  }));
}

// What a mark is: "all_gather fsdp, 2.9 ms".
export function markText(step: Simulated, of: SimulatedClass, row: number, mark: number): string {
  const found = of.rows[row]?.marks[mark];
  if (!found) return '';
  const [start, end, pass, label] = found;
  const ms = (seconds: number) => `${(seconds * 1e3).toFixed(2)} ms`;
  return `${step.labels[label] ?? ''} (${step.passes[pass] ?? ''}), from ${ms(start)}, takes ${ms(end - start)}`;
}

export const axisSeconds = (seconds: Record<string, number>, axis: string) => seconds[axis] ?? 0;
