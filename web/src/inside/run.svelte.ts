// Which run is looked into, and which of its ranks: the run of the plan page, where the reader comes
// from there, or a run file. All of it lies in the address.
import demo from '../../../examples/demo.toml?raw';
import type { Request } from '../core/core';
import { flagsOf, kRunKeys, requestOf, type Run } from '../plan/run';
import { plan } from '../plan/state.svelte';
import { numberParam, url } from '../state/url.svelte';

export const kDemo = 'examples/demo.toml';
const kDemoRun: Run = { run_file: kDemo, cluster: 'h100' };

// Runs to look into; each shows something that the others do not.
export const kRuns: { name: string; run: Run }[] = [
  { name: 'the demo: dp 2, tp 2', run: {} },
  {
    name: 'the demo as a pipeline: pp 4',
    run: { ...kDemoRun, pp: '4', tp: '1', dp: '1', micro_batch: '1', global_batch: '16' },
  },
  {
    name: 'GPT-2 on 8 H100: pp 4, tp 2',
    run: {
      model: 'gpt2',
      cluster: 'h100-8',
      tp: '2',
      pp: '4',
      zero: '1',
      seq_len: '1024',
      global_batch: '16',
    },
  },
  {
    name: '405B on 24,576 H100: tp 8, pp 16, dp 192',
    run: {
      model: 'llama-3-405b',
      cluster: 'h100-24576',
      tp: '8',
      pp: '16',
      zero: '1',
      sequence_parallel: 'true',
      seq_len: '8192',
      global_batch: '3072',
    },
  },
];

class InsideRun {
  readonly rank = numberParam('rank', 0);
  readonly run = $derived.by((): Run => {
    const said = Object.fromEntries(
      kRunKeys.filter((key) => url.param(key)).map((key) => [key, url.param(key)!]),
    );
    return said.model || said.recipe || said.run_file ? said : { ...kDemoRun, ...said };
  });
  get title(): string {
    return this.run.model ?? this.run.recipe ?? this.run.run_file ?? '';
  }
  get cluster(): string {
    return this.run.cluster ?? '';
  }
  // What the plan page shows of the same.
  get params(): Record<string, string> {
    return Object.fromEntries(
      Object.entries(url.params).filter(([key]) => kRunKeys.includes(key) || key === 'files'),
    );
  }
  show(run: Run) {
    url.set({ ...Object.fromEntries(kRunKeys.map((key) => [key, run[key]])), rank: undefined });
  }
  // A run file that the reader brought.
  bring(name: string, text: string) {
    plan.addFile(name, text);
    this.show({ run_file: name, cluster: this.cluster });
  }
  // What a method is asked about this run; `more` are its own keys.
  request(more: Request = {}): Request {
    return { ...requestOf(this.run, { [kDemo]: demo, ...plan.files }), ...more };
  }
  command(topic: string, more = ''): string {
    const { run_file, tokens, ...rest } = this.run;
    return `tessera show ${topic} ${run_file ? `--run-file ${run_file} ` : ''}${flagsOf(rest)}${more}`;
  }
}

export const insideRun = new InsideRun();
