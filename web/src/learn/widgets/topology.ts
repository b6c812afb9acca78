// What `topology` answers, and the cases of the lesson.
export interface Fact {
  value: number;
  source: string;
}
export interface Level {
  name: string;
  units: number;
  devices: number;
  link: string;
  shape: string; // memory, switch, torus, shared
  bandwidth_bytes_s: number; // of a device, one direction
  bandwidth_both_bytes_s: number;
  memory_bytes: number;
  oversubscription: number;
  bisection_bytes_s?: number;
  text: string;
}
export interface Traffic {
  axis: string;
  link: string;
  bytes: number;
  busy_s: number;
  exposed_s: number;
}
export interface Device {
  name: string;
  memory_bytes: Fact;
  memory_bandwidth: Fact;
  multiprocessors?: Fact;
  peak_flops: Record<string, Fact>;
  year?: Fact;
  tensor_cores?: Fact;
  l1_bytes?: Fact;
  l2_bytes?: Fact;
}
export interface Topology {
  cluster: string;
  devices: number;
  node_devices: number;
  levels: Level[];
  device: Device;
  bisection_bytes_s?: number;
  rails?: Fact;
  torus?: number[];
  traffic?: Traffic[];
}

export const kCases: Record<string, { title: string; request: Record<string, string | number | boolean> }> = {
  'llama-3': { title: 'Llama 3 405B, 16,384 H100', request: { recipe: 'llama-3-405b-8k' } },
  '70b': {
    title: 'Llama 2 70B, 256 A100',
    request: {
      model: 'llama-2-70b',
      cluster: 'a100-256',
      tp: 8,
      pp: 4,
      zero: 1,
      seq_len: 4096,
      global_batch: 1024,
    },
  },
  gb200: {
    title: 'Llama 3 70B, 72 GB200 on one NVLink',
    request: {
      model: 'llama-3-70b',
      cluster: 'gb200-72',
      tp: 8,
      dp: 9,
      zero: 1,
      seq_len: 8192,
      global_batch: 288,
      sequence_parallel: true,
    },
  },
  cluster: { title: '24,576 H100 in pods of 3,072', request: { cluster: 'llama3-24k' } },
  tpu: { title: '8,960 TPU v5p, a torus', request: { cluster: 'tpu-v5p' } },
};
