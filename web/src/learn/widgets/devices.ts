// The devices of the catalogue, as `presets` lists them.
export interface Fact {
  value: number;
  provenance: string;
  source: string;
}
export interface Device {
  name: string;
  memory_bytes: Fact;
  peak_flops: Fact;
  memory_bandwidth: Fact;
  year?: number | Fact;
}
export interface Devices {
  devices: Device[];
}

// The year in which it came; where the catalogue has none, that of the source of its figures.
export function yearOf(device: Device): number | undefined {
  if (typeof device.year === 'number') return device.year;
  if (device.year) return device.year.value;
  const years = device.peak_flops.source.match(/\b20\d\d\b/g);
  return years ? Number(years.at(-1)) : undefined;
}
