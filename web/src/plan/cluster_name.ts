// Names of clusters: a family of the catalogue, and how many devices of it.
export interface Family {
  name: string;
  devices: number;
}

// "h100-16384" is 16,384 devices of the family h100; "h100-96" is a family itself. What is no name
// of this kind, a file or "8xl40s", has no number that could be moved.
export function clusterOf(name: string, families: readonly Family[]) {
  const known = families.find((family) => family.name === name);
  if (known) return { name, family: name, devices: known.devices };
  const [, family = '', devices = ''] = /^(.*)-(\d+)$/.exec(name) ?? [];
  if (families.some((one) => one.name === family)) return { name, family, devices: Number(devices) };
  return { name, family: name, devices: 0 };
}

export const clusterNames = {
  // A file that describes a cluster has levels of links.
  isFile: (path: string, text: string) => path.endsWith('.toml') && /^\s*\[\[levels\]\]/m.test(text),
  // As many devices as before, where that is another number than its own.
  withFamily(name: string, devices: number, families: readonly Family[]) {
    const own = families.find((family) => family.name === name)?.devices;
    return devices > 0 && devices !== own ? `${name}-${devices}` : name;
  },
};
