// What the place Plan shows: the run B, and A where one is pinned. All of it lies in the address.
import { url } from '../state/url.svelte';
import { kFirstRun, kRunKeys, runIn, withoutSplit, type Files, type Run } from './run';

// What `choices` takes for what nobody said.
export type Taken = Record<string, number | string | boolean>;

const kLargestLinkedFile = 6000; // an address has room for a config.json, not for more
// Where these are as here they need not be said.
const kPlain: Record<string, string> = {
  cp: '1',
  ep: '1',
  fsdp: '1',
  virtual_stages: '1',
  micro_batch: '1',
  recompute: 'none',
  schedule: '1f1b',
  sequence_parallel: 'false',
};

const isFirst = (run: Run) => kRunKeys.every((key) => (run[key] ?? '') === (kFirstRun[key] ?? ''));

class PlanState {
  // The slider that a hand is on, and the values that it has.
  reached = $state.raw<{ key: string; values: number[] } | undefined>(undefined);
  // Files too large for the address live as long as the page.
  private large = $state.raw<Files>({});
  readonly run = $derived(runIn(url.params));
  readonly pinned = $derived.by((): Run | undefined => {
    const text = url.param('a');
    return text === undefined ? undefined : runIn(Object.fromEntries(new URLSearchParams(text)));
  });
  readonly files = $derived.by((): Files => ({ ...this.large, ...linkedFiles() }));

  show(run: Run) {
    const first = isFirst(run);
    url.set({
      ...Object.fromEntries(kRunKeys.map((key) => [key, first ? undefined : run[key] || undefined])),
      stage: undefined,
    });
  }
  change(values: Record<string, string | undefined>, taken?: Taken) {
    this.show(this.changed(values, taken));
  }
  // Other values of some keys; undefined is what nobody says. Moving one axis of a split that the
  // core chose keeps the others where they are.
  changed(values: Record<string, string | undefined>, taken?: Taken): Run {
    const run: Record<string, string> = { ...this.run };
    if (taken && !run.run_file && !run.recipe) {
      for (const key of ['tp', 'pp', 'zero']) run[key] ??= String(taken[key] ?? 1);
      for (const [key, plain] of Object.entries(kPlain)) {
        const value = String(taken[key] ?? plain);
        if (run[key] === undefined && value !== plain) run[key] = value;
      }
    }
    for (const [key, value] of Object.entries(values)) {
      if (value === undefined || value === '') delete run[key];
      else run[key] = value;
    }
    return run;
  }
  // Model, cluster and batch stay; the core chooses the split.
  free() {
    this.show(withoutSplit(this.run));
  }
  // What the page opens with.
  reset() {
    this.large = {};
    this.show(kFirstRun);
    url.set({ a: undefined, files: undefined });
  }
  pin() {
    url.set({ a: new URLSearchParams(this.run as Record<string, string>).toString() });
  }
  unpin() {
    url.set({ a: undefined });
  }
  // A and B change places.
  swap() {
    const { run, pinned } = this;
    if (!pinned) return;
    this.show(pinned);
    url.set({ a: new URLSearchParams(run as Record<string, string>).toString() });
  }
  // Whether the link carries it.
  addFile(path: string, text: string): boolean {
    const files = { ...linkedFiles(), [path]: text };
    const fits = JSON.stringify(files).length <= kLargestLinkedFile;
    if (fits) url.set({ files: JSON.stringify(files) });
    else this.large = { ...this.large, [path]: text };
    return fits;
  }
}

function linkedFiles(): Files {
  try {
    return JSON.parse(url.param('files') ?? '{}') as Files;
  } catch {
    return {};
  }
}

export const plan = new PlanState();
