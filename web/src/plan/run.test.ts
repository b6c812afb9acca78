import { describe, expect, it } from 'vitest';
import { clusterOf } from './cluster_name';
import {
  commandOf,
  differing,
  kFirstRun,
  requestOf,
  runIn,
  tomlOf,
  withChange,
  withFlags,
  withoutSplit,
  withSetting,
} from './run';

describe('runIn', () => {
  it('is the first run where an address says nothing', () => {
    expect(runIn({})).toEqual(kFirstRun);
    expect(runIn({ stage: '3' })).toEqual(kFirstRun);
  });
  it('has what is said and no more', () => {
    expect(runIn({ model: 'gpt2', cluster: 'h100-8', a: 'x' })).toEqual({ model: 'gpt2', cluster: 'h100-8' });
  });
});

describe('requestOf', () => {
  it('has the keys of the core', () => {
    expect(requestOf({ ...kFirstRun, gradients: 'bf16', set: 'parallel.prefetch=2' })).toEqual({
      model: 'llama-3-405b',
      cluster: 'h100-16384',
      tp: '8',
      pp: '16',
      zero: '1',
      sequence_parallel: true,
      seq_len: '8192',
      global_batch: '2048',
      set: ['train.gradients=bf16', 'parallel.prefetch=2'],
    });
  });
  it('sends the files that it names, and no others', () => {
    const files = { 'config.json': '{}', 'other.toml': '' };
    expect(requestOf({ model: 'config.json' }, files).files).toEqual({ 'config.json': '{}' });
    expect(requestOf({ model: 'gpt2' }, files).files).toBeUndefined();
  });
});

describe('commandOf', () => {
  it('is the command that says the same', () => {
    expect(commandOf(kFirstRun)).toBe(
      'tessera plan --model llama-3-405b --cluster h100-16384 --tp 8 --pp 16 --zero 1 --sequence-parallel ' +
        '--global-batch 2048 --seq-len 8192 --tokens 15T --check',
    );
  });
  it('quotes what a shell would take apart', () => {
    expect(commandOf({ run_file: 'my run.toml' })).toBe("tessera plan 'my run.toml' --check");
  });
});

describe('changes', () => {
  it('put a setting in its place', () => {
    expect(withSetting({ tp: '8' }, 'parallel.tp=4')).toEqual({ tp: '4' });
    expect(withSetting({}, 'train.gradients="bf16"')).toEqual({ gradients: 'bf16' });
    expect(withSetting({ set: 'a.b=1;parallel.prefetch=1' }, 'parallel.prefetch=2').set).toBe(
      'a.b=1;parallel.prefetch=2',
    );
  });
  it('leave data parallelism what is left where nobody said it', () => {
    expect(withChange({ tp: '8' }, ['parallel.cp=8', 'parallel.dp=16'])).toEqual({ tp: '8', cp: '8' });
    expect(withChange({ dp: '128' }, ['parallel.cp=8', 'parallel.dp=16'])).toEqual({ cp: '8', dp: '16' });
  });
  it('read the flags of a search', () => {
    const flags =
      '--tp 1 --dp 2 --fsdp 128 --zero 3 --sequence-parallel --recompute full:74+none --set x.y=1';
    expect(withFlags(withoutSplit(kFirstRun), flags)).toMatchObject({
      model: 'llama-3-405b',
      tp: '1',
      dp: '2',
      fsdp: '128',
      zero: '3',
      sequence_parallel: 'true',
      recompute: 'full:74+none',
      set: 'x.y=1',
    });
  });
  it('are listed key by key', () => {
    expect(differing(kFirstRun, { ...kFirstRun, cp: '2' })).toEqual([{ key: 'cp', a: '-', b: '2' }]);
  });
});

describe('tomlOf', () => {
  it('is a run file', () => {
    expect(tomlOf({ model: 'gpt2', cluster: 'h100-8', tp: '2', schedule: 'zb-v', seq_len: '1024' })).toBe(
      '[model]\npreset = "gpt2"\n\n[cluster]\nname = "h100-8"\n\n[parallel]\ntp = 2\nschedule = "zb-v"\n\n' +
        '[train]\nseq_len = 1024\n',
    );
  });
});

describe('clusterOf', () => {
  const families = [
    { name: 'h100', devices: 8 },
    { name: 'h100-96', devices: 8 },
  ];
  it('takes a name apart into family and devices', () => {
    expect(clusterOf('h100-16384', families)).toMatchObject({ family: 'h100', devices: 16384 });
    expect(clusterOf('h100-96', families)).toMatchObject({ family: 'h100-96', devices: 8 });
    expect(clusterOf('h100-96-64', families)).toMatchObject({ family: 'h100-96', devices: 64 });
    expect(clusterOf('mine.toml', families)).toMatchObject({ family: 'mine.toml', devices: 0 });
  });
});
