// A run as the address keeps it: texts by key, only what somebody said. The keys are those of the
// core's requests (docs/api.md); what is not said the core fills in, as for the command.
import type { Request } from '../core/core';

export type Run = Readonly<Record<string, string>>;
export type Files = Readonly<Record<string, string>>;

const kSources = ['model', 'run_file', 'recipe', 'cluster', 'engine'] as const;
export const kSizes = [
  'tp',
  'pp',
  'cp',
  'ep',
  'fsdp',
  'dp',
  'zero',
  'virtual_stages',
  'micro_batch',
  'global_batch',
  'seq_len',
] as const;
const kWords = ['schedule', 'recompute', 'dtype'] as const;
// `gradients` and `set` are settings of a run file; the second has several, between semicolons.
export const kRunKeys: readonly string[] = [
  ...kSources,
  ...kSizes,
  ...kWords,
  'sequence_parallel',
  'gradients',
  'set',
  'tokens',
];

// What the page opens with: the largest run that many know, and it does not fit.
export const kFirstRun: Run = {
  model: 'llama-3-405b',
  cluster: 'h100-16384',
  tp: '8',
  pp: '16',
  zero: '1',
  sequence_parallel: 'true',
  seq_len: '8192',
  global_batch: '2048',
  tokens: '15T',
};

// An address that says nothing of a run is the first one.
export function runIn(params: Readonly<Record<string, string>>): Run {
  const said = Object.fromEntries(kRunKeys.filter((key) => params[key]).map((key) => [key, params[key]!]));
  return Object.keys(said).length > 0 ? said : kFirstRun;
}

export const settingsOf = (run: Run): string[] => [
  ...(run.gradients ? [`train.gradients=${run.gradients}`] : []),
  ...(run.set?.split(';').filter(Boolean) ?? []),
];

// The request of a method that takes a run: files are those that it names.
export function requestOf(run: Run, files: Files = {}): Request {
  const request: Request = {};
  for (const key of [...kSources, ...kSizes, ...kWords]) if (run[key]) request[key] = run[key];
  if (run.sequence_parallel) request.sequence_parallel = run.sequence_parallel === 'true';
  const settings = settingsOf(run);
  if (settings.length > 0) request.set = settings;
  const named = Object.entries(files).filter(([path]) => kSources.some((key) => run[key] === path));
  if (named.length > 0) request.files = Object.fromEntries(named);
  return request;
}

const quoted = (word: string) => (/^[\w./:=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// The same on a command line.
export function flagsOf(run: Run): string {
  const words: string[] = [];
  if (run.run_file) words.push(quoted(run.run_file));
  for (const key of ['model', 'recipe', 'cluster', 'engine', ...kSizes, ...kWords]) {
    if (run[key]) words.push(`--${key.replaceAll('_', '-')} ${quoted(run[key])}`);
    if (key === 'zero' && run.sequence_parallel === 'true') words.push('--sequence-parallel');
  }
  for (const setting of settingsOf(run)) words.push(`--set ${quoted(setting)}`);
  if (run.tokens) words.push(`--tokens ${quoted(run.tokens)}`);
  return words.join(' ');
}
export const commandOf = (run: Run) => `tessera plan ${flagsOf(run)} --check`;

const kSectionOf: Record<string, string> = {
  tp: 'parallel',
  pp: 'parallel',
  cp: 'parallel',
  ep: 'parallel',
  fsdp: 'parallel',
  dp: 'parallel',
  zero: 'parallel',
  virtual_stages: 'parallel',
  schedule: 'parallel',
  recompute: 'parallel',
  sequence_parallel: 'parallel',
  micro_batch: 'train',
  global_batch: 'train',
  seq_len: 'train',
  dtype: 'train',
  gradients: 'train',
};

// With one setting of a run file, "parallel.cp=8", put in its place.
export function withSetting(run: Run, setting: string): Run {
  const at = setting.indexOf('=');
  const [section, key] = setting.slice(0, at).trim().split('.');
  const value = setting
    .slice(at + 1)
    .trim()
    .replace(/^"(.*)"$/, '$1');
  if (key && kSectionOf[key] === section) return { ...run, [key]: value };
  const others = (run.set ?? '')
    .split(';')
    .filter((other) => other && !other.startsWith(`${section}.${key}=`));
  return { ...run, set: [...others, setting].join(';') };
}
// A change that the core proposes. It names all axes; data parallelism stays what is left where
// nobody said it.
export function withChange(run: Run, settings: readonly string[] | string): Run {
  const list = typeof settings === 'string' ? settings.split(/\s+/) : settings;
  return list
    .filter((setting) => run.dp !== undefined || !setting.startsWith('parallel.dp='))
    .reduce(withSetting, run);
}

// "--tp 8 --sequence-parallel --set train.gradients=bf16", as searches and guesses say a split.
export function withFlags(run: Run, flags: string): Run {
  const words = flags.match(/'[^']*'|\S+/g)?.map((word) => word.replace(/^'(.*)'$/, '$1')) ?? [];
  let result: Run = run;
  for (let i = 0; i < words.length; ++i) {
    const key = words[i]!.replace(/^--/, '').replaceAll('-', '_');
    const next = words[i + 1];
    if (next === undefined || next.startsWith('--')) result = { ...result, [key]: 'true' };
    else if (key === 'set') result = withSetting(result, words[++i]!);
    else result = { ...result, [key]: words[++i]! };
  }
  return result;
}

const kSplit = [
  'tp',
  'pp',
  'cp',
  'ep',
  'fsdp',
  'dp',
  'zero',
  'virtual_stages',
  'micro_batch',
  'schedule',
  'recompute',
  'sequence_parallel',
  'gradients',
  'set',
];
// Model, cluster and batch alone: the core chooses the rest.
export const withoutSplit = (run: Run): Run =>
  Object.fromEntries(Object.entries(run).filter(([key]) => !kSplit.includes(key)));

// The same as a run file, for who has one already: the sections that this page knows.
export function tomlOf(run: Run): string {
  const sections: Record<string, string[]> = { model: [], cluster: [], parallel: [], train: [] };
  const valueOf = (value: string) => (/^(\d+|true|false)$/.test(value) ? value : JSON.stringify(value));
  for (const [key, section] of Object.entries(kSectionOf)) {
    if (run[key]) sections[section]!.push(`${key} = ${valueOf(run[key])}`);
  }
  if (run.model) sections.model!.push(`preset = ${JSON.stringify(run.model)}`);
  if (run.cluster) sections.cluster!.push(`name = ${JSON.stringify(run.cluster)}`);
  for (const setting of run.set?.split(';').filter(Boolean) ?? []) {
    const [path = '', value = ''] = setting.split(/=(.*)/s);
    const [section = '', ...key] = path.split('.');
    (sections[section] ??= []).push(`${key.join('.')} = ${valueOf(value.replace(/^"(.*)"$/, '$1'))}`);
  }
  return Object.entries(sections)
    .filter(([, lines]) => lines.length > 0)
    .map(([section, lines]) => `[${section}]\n${lines.join('\n')}\n`)
    .join('\n');
}

export function differing(a: Run, b: Run): { key: string; a: string; b: string }[] {
  return kRunKeys
    .filter((key) => (a[key] ?? '') !== (b[key] ?? ''))
    .map((key) => ({ key, a: a[key] ?? '-', b: b[key] ?? '-' }));
}
