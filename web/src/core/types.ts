// The shapes of answers that several widgets read (docs/api.md, docs/plan-json.md).

// `explain`: a formula, its numbers, its results.
export interface Explained {
  value: number;
  unit: string;
  text: string;
  what: string;
  formula: string;
  numbers: string;
}
export interface ExplainTable {
  title: string;
  columns: string[];
  rows: (number | string)[][];
}
export interface Explanation {
  topic: string;
  title: string;
  given: Record<string, unknown>;
  results: Record<string, Explained>;
  tables: Record<string, ExplainTable>;
  notes: string[];
}

export const kParts = [
  'parameters',
  'gradients',
  'optimizer',
  'activations',
  'communication',
  'workspace',
] as const;
export type Part = (typeof kParts)[number];
export type MemoryBytes = Record<Part | 'total', number>;

export const kAxes = ['pp', 'dp', 'fsdp', 'cp', 'tp', 'ep'] as const;
export type Axis = (typeof kAxes)[number];

export interface PlanClass {
  pipeline_rank: number;
  first_rank: number;
  ranks: number;
  stages?: { stage: number; layers: number; in_flight: number }[]; // where Programs compute the model
  memory_bytes: MemoryBytes;
  traffic: { group: string; op: string; calls: number; bytes_sent: number }[];
  weight_versions?: number;
}
export interface PlanChange {
  settings: string[] | string;
  peak_bytes: number;
  step_s?: number;
}
export interface Plan {
  world: number;
  mesh: Record<string, number>;
  parameters: number;
  source: string;
  dtype: string;
  fits: boolean;
  peak_bytes: number;
  limit_bytes: number;
  classes: PlanClass[];
  guesses: { what: string; taken: string }[];
  cluster?: { name: string; device: string; devices: number; devices_in_all: number };
  time?: {
    step_s: number;
    compute_s: number;
    forward_s: number;
    backward_s: number;
    recompute_s: number;
    exposed_s: Record<string, number>;
    bubble_s: number;
    optimizer_s: number;
  };
  links?: { axis: string; link: string; bytes: number; busy_s: number }[];
  rates?: { tokens_per_s: number; tflops_per_device: number; mfu: number; hfu: number };
  training?: { tokens: number; steps: number; days: number; device_hours: number; usd?: number };
  changes?: PlanChange[];
  nearest_change?: PlanChange & { bytes_over: number };
  more_devices?: PlanChange & { devices: number };
  recipe?: {
    name: string;
    title: string;
    source: string;
    notes: string[];
    published?: Record<string, number | string>;
    planned?: Record<string, number | string>;
  };
  why?: { title: string; text: string }[];
}
