import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { useCore, type Request } from '../core/core';
import TraceButton from '../inside/TraceButton.svelte';
import { url } from '../state/url.svelte';
import Files from './Files.svelte';
import MfuCheck from './MfuCheck.svelte';
import Scenarios from './Scenarios.svelte';
import SearchCard from './SearchCard.svelte';
import ShellCard from './ShellCard.svelte';
import { kFirstRun } from './run';
import { plan } from './state.svelte';
import WhatFields from './WhatFields.svelte';

// A core that says what is put into it: cards must show that, and nothing of their own.
let asked: [method: string, request: Request][];
function stub(answer: (method: string, request: Request) => unknown) {
  asked = [];
  const ask = async <T>(method: string, request: Request) => {
    asked.push([method, request]);
    return answer(method, request) as T;
  };
  useCore({ ask, askAlone: ask });
}
beforeEach(() => {
  for (const key of Object.keys(url.params)) url.set({ [key]: undefined });
});
afterEach(() => {
  cleanup();
  useCore(undefined);
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});
const status = () => screen.getByRole('status').textContent!.replace(/\s+/g, ' ').trim();

it('shows the run of a scenario', async () => {
  render(Scenarios);
  await fireEvent.click(screen.getByText('7B on 8, FSDP: fits'));
  expect(plan.run).toMatchObject({ model: 'llama-2-7b', cluster: 'h100-8', fsdp: '8', zero: '3' });
  await fireEvent.click(screen.getByText(/405B on 16,384 H100/));
  expect(plan.run).toEqual(kFirstRun);
  expect(url.param('model')).toBeUndefined(); // what the page opens with needs no address
});

it('asks the core for an MFU, and shows what it says', async () => {
  const mfu = { value: 0.123, unit: '', text: '12.3 %', what: 'MFU', formula: 'a / p', numbers: '1 / 2' };
  stub(() => ({ results: { achieved_mfu: mfu } }));
  render(MfuCheck);
  await waitFor(() => expect(status()).toBe('400 of 989 TFLOP/s is 12.3 %.'));
  expect(asked[0]![1]).toEqual({ topic: 'flops', given: { achieved: '400TFLOP/s', peak: '989TFLOP/s' } });
});

it('names the recipes of the catalogue; a chosen one is all of the run', async () => {
  const recipe = { name: 'mine', title: 'Mine', cluster: 'h100-64' };
  stub((_, { kind }) => ({ [kind as string]: kind === 'recipes' ? [recipe] : [] }));
  render(WhatFields);
  const choice = screen.getByLabelText<HTMLSelectElement>('Recipe');
  await waitFor(() => expect([...choice.options].map((o) => o.label)).toEqual(['none', 'mine']));
  await fireEvent.change(choice, { target: { value: choice.options[1]!.value } });
  expect(plan.run).toEqual({ recipe: 'mine', tokens: '15T' });
});

it('takes files that are dropped: a model, a run; refuses others, and what is too large', async () => {
  render(Files);
  const drop = (name: string, text: string, size = text.length) => {
    const event = new Event('drop', { bubbles: true, cancelable: true });
    const file = { name, size, text: async () => text };
    Object.assign(event, { dataTransfer: { types: ['Files'], files: [file] } });
    dispatchEvent(event);
  };
  drop('config.json', '{ "hidden_size":  8 }');
  await waitFor(() => expect(status()).toBe('config.json is read.'));
  expect(plan.run.model).toBe('config.json');
  expect(plan.files['config.json']).toBe('{"hidden_size":8}');
  drop('run.toml', '[train]\nglobal_batch = 8\n');
  await waitFor(() => expect(plan.run.run_file).toBe('run.toml'));
  expect(plan.run.model).toBeUndefined();
  drop('notes.txt', 'hello');
  await waitFor(() => expect(status()).toMatch(/notes.txt: take a config.json/));
  drop('huge.json', '{}', 2 ** 21);
  await waitFor(() => expect(status()).toMatch(/huge.json has 2097152 bytes/));
});

it('gives the run as a command and as TOML, and as what the core emits for other systems', async () => {
  stub((_, { system }) => ({ settings: `--said-for ${system}` }));
  render(ShellCard, { run: { model: 'gpt2', cluster: 'h100-8', tp: '2' }, taken: { micro_batch: 4 } });
  const text = () => document.querySelector('pre')!.textContent;
  expect(text()).toBe('tessera plan --model gpt2 --cluster h100-8 --tp 2 --check');
  url.set({ as: 'toml' });
  await waitFor(() => expect(text()).toContain('[parallel]\ntp = 2'));
  expect(text()).toContain('micro_batch = 4');
  expect(asked).toEqual([]);
  url.set({ as: 'nanotron' });
  await waitFor(() => expect(text()).toBe('--said-for nanotron'));
  expect(asked).toEqual([['emit', { model: 'gpt2', cluster: 'h100-8', tp: '2', system: 'nanotron' }]]);
});

const found = (number: number, step_s: number, plan_flags: string) => ({
  number,
  strategy: { tp: 4, pp: 2, dp: 1, cp: 1, ep: 1, zero: 1, micro_batch: 1, schedule: '1f1b' },
  peak_bytes: 2 ** 30,
  time: { step_s },
  rates: { mfu: 0.5 },
  why: 'it is said to be',
  engine_lacks: '',
  plan_flags,
});
it('shows what a search found, and loads a plan', async () => {
  const result = {
    configurations: 1234,
    priced: 56,
    simulated: 7,
    memory_limit_bytes: 2 ** 33,
    plans: [found(1, 1.5, '--tp 4 --pp 2 --zero 1'), found(2, 2.5, '--tp 8')],
    rejected: [{ reason: 'too slow', configurations: 9 }],
    remedies: [],
  };
  stub(() => result);
  render(SearchCard, {});
  await fireEvent.click(screen.getByRole('button', { name: 'Search' }));
  await waitFor(() => expect(status()).toMatch(/^1,234 configurations, 56 priced, 7 simulated/));
  expect(status()).toContain('The best takes 1.5');
  expect(asked[0]![1]).toMatchObject({ model: 'llama-3-405b', objective: 'time', top: 10, pareto: true });
  expect(screen.getByText(/too slow: 9 configurations/)).toBeTruthy();
  await fireEvent.click(screen.getByRole('button', { name: '2' }));
  expect(plan.run).toMatchObject({ model: 'llama-3-405b', tp: '8' });
  expect(plan.run.pp).toBeUndefined();
});

it('saves the trace that the core gives, for Perfetto; says why there is none', async () => {
  let saved: Blob | undefined;
  vi.stubGlobal('URL', Object.assign(URL, { createObjectURL: (blob: Blob) => ((saved = blob), 'blob:x') }));
  URL.revokeObjectURL = () => {};
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => {});
  stub(() => ({ trace: { traceEvents: [1, 2] } }));
  render(TraceButton, { request: { model: 'gpt2' } });
  await fireEvent.click(screen.getByRole('button', { name: 'Perfetto' }));
  await waitFor(() => expect(saved?.size).toBe('{"traceEvents":[1,2]}'.length));
  expect(asked).toEqual([['trace', { model: 'gpt2' }]]);
  stub(() => {
    throw new Error('no such model');
  });
  await fireEvent.click(screen.getByRole('button', { name: 'Perfetto' }));
  await waitFor(() => expect(screen.getByRole('button', { name: 'no such model' })).toBeTruthy());
});
