// What the core says of serving, as the pictures of its lesson draw it: `serve_plan`, and the topic
// `serving` of `show`.
import { count, significant } from '../../format/format';
import type { Row } from '../../parts/timeline';

export interface ServeStage {
  first_rank: number;
  ranks: number;
  first_layer: number;
  layers: number;
  embedding: boolean;
  head: boolean;
  memory_bytes: Record<string, number>;
  page_bytes: number;
}
export interface ServePlan {
  model: {
    name: string;
    parameters: number;
    layers: number;
    heads: number;
    kv_heads: number;
    head_dim: number;
  };
  mesh: { tp: number; pp: number; ranks: number };
  max_context: number;
  fits: boolean;
  limit: {
    bytes: number;
    whose: string;
    rank: number;
    beside_cache_bytes: number;
    line_bytes: number;
    page_bytes: number;
  };
  cache: {
    pages: number;
    page: number;
    tokens: number;
    page_bytes: number;
    bytes_per_token: number;
    kv_heads: 'split' | 'whole';
    kv_heads_of_rank: number;
    most_sequences: { context: number; sequences: number }[];
  };
  total_bytes: number;
  stages: ServeStage[];
  changes?: { flag: string; value: string; pages: number }[];
}
// The parts of a rank, from the bottom of its bar up, in the colours of the command's picture.
export const kServeParts = [
  { key: 'parameters', name: 'weights', color: 'parameters' },
  { key: 'activations', name: 'activations', color: 'activations' },
  { key: 'communication', name: 'communication', color: 'communication' },
  { key: 'workspace', name: 'workspace', color: 'workspace' },
  { key: 'cache', name: 'cache', color: 'optimizer' },
] as const;

const span = (one: string, first: number, number: number) =>
  number === 1 ? `${one} ${first}` : `${one}s ${first}-${first + number - 1}`;
export const layersOf = (stage: ServeStage) => span('layer', stage.first_layer, stage.layers);
// The key heads of a rank of tp.
export const headsOf = ({ cache, model }: ServePlan, tp: number) =>
  cache.kv_heads === 'whole'
    ? span('head', 0, model.kv_heads)
    : span('head', tp * cache.kv_heads_of_rank, cache.kv_heads_of_rank);

// Tokens [first, first + count) of a request; of its answer where `answer` is 1.
export type ServedPart = [request: number, first: number, count: number, answer: number];
export interface ServedFrame {
  planned: number;
  tokens: number;
  pages_used: number;
  parts: ServedPart[];
  stages: [begin: number, end: number][];
}
export interface Serving {
  stages: number;
  token_budget: number;
  page: number;
  pages: number;
  makespan: number;
  preemptions: number;
  recomputed_tokens: number;
  requests: { arrival: number; prompt: number; answer: number; first_token: number; end: number }[];
  busy: number[]; // by stage
  frames: ServedFrame[];
}

const isPrompt = (part: ServedPart) => part[3] === 0;
// A request has a letter: its tokens have numbers.
export const letterOf = (request: number) =>
  String.fromCharCode(65 + (request % 26)) + (request < 26 ? '' : String(Math.floor(request / 26)));
const lettersOf = (parts: ServedPart[]) => parts.map(([request]) => letterOf(request)).join('');

// A row for each stage: frames that read prompts, frames that write answers, and those that do both.
export function rowsOf(of: Serving): Row[] {
  return Array.from({ length: of.stages }, (_, stage) => ({
    name: `stage ${stage}`,
    note: `${Math.round((100 * of.busy[stage]!) / of.makespan)} %`,
    marks: of.frames.map((frame, i) => ({
      start: frame.stages[stage]![0],
      end: frame.stages[stage]![1],
      color: colorOf(frame.parts),
      text: of.requests.length > 1 ? lettersOf(frame.parts) : String(i + 1), // of one request its frames are told apart
    })),
  }));
}
export const kFrameColors = { prompt: 'parameters', answer: 'gradients', both: 'optimizer' };
const colorOf = (parts: ServedPart[]) => {
  const prompts = parts.filter(isPrompt).length;
  return kFrameColors[prompts === parts.length ? 'prompt' : prompts === 0 ? 'answer' : 'both'];
};

export const timeOf = (time: number) => `${significant(time, 4)} ms`;
export function describeFrame(of: Serving, index: number, stage: number): string {
  const frame = of.frames[index]!;
  const [begin, end] = frame.stages[stage]!;
  const answers = frame.parts.filter((part) => !isPrompt(part));
  const said = frame.parts
    .filter(isPrompt)
    .map(
      ([r, first, number]) =>
        `tokens ${count(first)} to ${count(first + number - 1)} of ${letterOf(r)}'s prompt`,
    );
  if (answers.length > 0) said.unshift(`the next token of ${answers.map(([r]) => letterOf(r)).join(', ')}`);
  return (
    `Frame ${index}, on stage ${stage} from ${timeOf(begin)} to ${timeOf(end)}: ${said.join('; ')}. ` +
    `${count(frame.tokens)} of at most ${count(of.token_budget)} tokens; ${count(frame.pages_used)} of ${count(of.pages)} pages are used.`
  );
}

export function framesTable(of: Serving) {
  return {
    columns: [
      'frame',
      ...Array.from({ length: of.stages }, (_, s) => `stage ${s}`),
      'tokens',
      'pages',
      'prompts',
      'answers',
    ],
    rows: of.frames.map((frame, i) => [
      i,
      ...frame.stages.map(([begin, end]) => `${significant(begin, 5)}-${significant(end, 5)}`),
      frame.tokens,
      frame.pages_used,
      frame.parts
        .filter(isPrompt)
        .map(([r, first, number]) => `${letterOf(r)} ${first}-${first + number - 1}`)
        .join(', '),
      lettersOf(frame.parts.filter((part) => !isPrompt(part))),
    ]),
  };
}
