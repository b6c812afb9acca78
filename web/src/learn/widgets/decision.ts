// The questions of the decision tree, and the split that the answers make. Sizes come from the core.

export interface Case {
  title: string;
  model: string;
  family: string; // of clusters in the catalogue
  devices: number;
  seq: number;
  batch: number;
}
export const kCases: Record<string, Case> = {
  '1b-4': {
    title: 'Llama 3.2 1B on 8 A100',
    model: 'llama-3.2-1b',
    family: 'a100',
    devices: 8,
    seq: 4096,
    batch: 64,
  },
  '7b-8': {
    title: 'Llama 2 7B on 8 A100',
    model: 'llama-2-7b',
    family: 'a100',
    devices: 8,
    seq: 4096,
    batch: 64,
  },
  '70b-256': {
    title: 'Llama 2 70B on 256 A100',
    model: 'llama-2-70b',
    family: 'a100',
    devices: 256,
    seq: 4096,
    batch: 1024,
  },
  '175b-1024': {
    title: 'GPT-3 175B on 1,024 A100',
    model: 'gpt-3-175b',
    family: 'a100',
    devices: 1024,
    seq: 2048,
    batch: 1536,
  },
  '405b-16384': {
    title: 'Llama 3 405B on 16,384 H100',
    model: 'llama-3-405b',
    family: 'h100',
    devices: 16384,
    seq: 8192,
    batch: 2048,
  },
};

export interface Facts {
  bytes: number; // of all states
  devicesFilled: number; // devices whose memory the states fill
  memory: number; // of a device
  devices: number;
  node: number; // devices of a node
  link: string; // inside a node
}
export type Reply = 'yes' | 'no';
export interface Step {
  question: string;
  fact: string;
  reply: Reply;
  then: string;
  asked: boolean; // the path leads here
}
export interface Split {
  tp: number;
  pp: number;
  dp: number;
  zero: number;
  name: string;
}

const kStatesShare = 0.5; // of a device, that leaves room for activations

// What the numbers say, unless the reader says otherwise.
export function answersOf(facts: Facts, said: string[]): Reply[] {
  const stages = neededStages(facts, facts.node);
  const computed = [
    facts.devicesFilled <= kStatesShare,
    facts.node > 1,
    stages > 1 && facts.devices > facts.node,
    facts.devices > facts.node * stages,
    facts.devicesFilled > kStatesShare,
  ];
  return computed.map((yes, i) => (said[i] === 'yes' || said[i] === 'no' ? said[i] : yes ? 'yes' : 'no'));
}

function neededStages(facts: Facts, tp: number): number {
  const needed = facts.devicesFilled / kStatesShare / tp;
  let stages = 1;
  while (stages < needed && stages * tp * 2 <= facts.devices) stages *= 2;
  return stages;
}

export function splitOf(facts: Facts, replies: Reply[]): Split {
  const [fits, links, nodes, , memory] = replies.map((reply) => reply === 'yes');
  const tp = !fits && links ? facts.node : 1;
  const pp = !fits && nodes ? Math.max(2, neededStages(facts, tp)) : 1;
  const dp = Math.floor(facts.devices / (tp * pp));
  const zero = dp === 1 || !memory ? 0 : tp * pp === 1 ? 3 : 1;
  const names = [tp > 1 && `TP${tp}`, pp > 1 && `PP${pp}`, dp > 1 && `DP${dp}`, zero > 0 && `ZeRO-${zero}`];
  return { tp, pp, dp, zero, name: names.filter(Boolean).join(' + ') || 'one device' };
}

// What is decided once this question is answered, as a plan to open.
export function planAfter(i: number, of: Case, split: Split): Record<string, string> {
  const given = {
    model: of.model,
    cluster: `${of.family}-${of.devices}`,
    tp: i >= 1 ? split.tp : 1,
    pp: i >= 2 ? split.pp : 1,
    zero: i >= 4 ? split.zero : 0,
    seq_len: of.seq,
    global_batch: of.batch,
    micro_batch: 1,
  };
  return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, String(value)]));
}

const gb = (bytes: number) => `${Math.round(bytes / 1e9).toLocaleString('en-US')} GB`;

export function pathOf(facts: Facts, replies: Reply[]): Step[] {
  const split = splitOf(facts, replies);
  const fits = replies[0] === 'yes';
  const step = (i: number, question: string, fact: string, yes: string, no: string, asked = true) => ({
    question,
    fact,
    reply: replies[i]!,
    then: replies[i] === 'yes' ? yes : no,
    asked,
  });
  return [
    step(
      0,
      'Do the states fit on one device, with room for activations?',
      `${gb(facts.bytes)} against ${gb(facts.memory)}.`,
      'Replicate the model: data parallelism alone, the simplest.',
      'Split the model.',
    ),
    step(
      1,
      'Are there fast links inside a node?',
      `${facts.node} devices joined by ${facts.link}.`,
      `Split tensors over the node: tp ${facts.node}, never beyond it.`,
      'No tensor parallelism: it sends in every layer.',
      !fits,
    ),
    step(
      2,
      'Is it still too large for one node, and are there more?',
      `${gb(facts.bytes / split.tp)} of states for each rank of a node.`,
      `Split layers between nodes: pp ${split.pp}.`,
      'One stage: no bubble.',
      !fits,
    ),
    step(
      3,
      'Are devices left?',
      `${facts.devices.toLocaleString('en-US')} devices, ${split.tp * split.pp} of them hold one model.`,
      `Replicate what there is: dp ${split.dp}.`,
      'One replica takes all of them.',
    ),
    step(
      4,
      'Does memory still matter?',
      'The optimizer is three quarters of the states, and replicas hold it many times.',
      split.zero === 3
        ? 'Split all states over the replicas: ZeRO-3.'
        : split.zero === 0
          ? 'One replica: nothing to split over.'
          : 'Split the optimizer over the replicas: ZeRO-1 sends no more than before.',
      'Keep whole states on every replica.',
    ),
  ];
}
