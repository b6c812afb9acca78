// How numbers read (studio's rules): bytes in GiB with one decimal, times by size, percent with one
// decimal, commas in counts.

const commas = new Intl.NumberFormat('en-US');

export function count(value: number): string {
  return commas.format(value);
}

// 78.7 GiB; exact(…) has the bytes themselves.
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  let shown = value;
  while (Math.abs(shown) >= 1024 && unit + 1 < units.length) {
    shown /= 1024;
    ++unit;
  }
  return unit === 0 ? `${commas.format(shown)} B` : `${shown.toFixed(1)} ${units[unit]}`;
}
export const gibOf = (value: number) => value / 2 ** 30;
export const exact = (value: number) => `${commas.format(value)} B`;
// 112 GB: for lessons that count in powers of ten.
export function gb(value: number): string {
  return `${significant(value / 1e9, 4)} GB`;
}

// 10.307 s, 762.8 ms, 12 µs
export function seconds(value: number): string {
  const size = Math.abs(value);
  if (value === 0) return '0 s';
  if (size >= 1) return `${commas.format(Number(value.toFixed(3)))} s`;
  if (size >= 1e-3) return `${(value * 1e3).toFixed(1)} ms`;
  return `${(value * 1e6).toFixed(size >= 1e-5 ? 0 : 1)} µs`;
}
export function difference(value: number, format: (value: number) => string): string {
  return `${value < 0 ? '−' : '+'}${format(Math.abs(value))}`;
}
// 20 ms instead of 20.0 ms, for numbers that are round, as those of an axis.
export const bare = (text: string) => text.replace(/(\.\d*?)0+(?!\d)/, '$1').replace(/\.(?!\d)/, '');
export const percent = (share: number) => `${(share * 100).toFixed(1)} %`;

export function significant(value: number, digits: number): string {
  if (!Number.isFinite(value)) return String(value);
  return commas.format(Number(value.toPrecision(digits)));
}

// Powers of ten up to this one are written out.
export const kWrittenOut = 6;
const kRaised = '⁰¹²³⁴⁵⁶⁷⁸⁹';
const raised = (power: number) =>
  (power < 0 ? '⁻' : '') + [...String(Math.abs(power))].map((digit) => kRaised[Number(digit)]).join('');

// With the signs of print, powers of ten as they are.
export const grouped = (text: string) =>
  text
    .replace(/\bus\b/g, 'µs')
    .replace(/(^|[\s(])-(?=\d)/g, '$1−')
    .replace(/(?<![\d.,])\d{4,}/g, (digits) => count(Number(digits)));

// What the core says, with the signs of print: −0.05, 51 µs, 1,168 years, 3.645 · 10²⁵.
export const printed = (text: string) =>
  grouped(
    text.replace(/\b(\d+(?:\.\d+)?)e([+-]?\d+)\b/g, (whole, digits: string, power: string) =>
      Number(power) >= 0 && Number(power) <= kWrittenOut
        ? count(Number(whole))
        : `${digits} · 10${raised(Number(power))}`,
    ),
  );

// 1.966 PB, 7.912 PFLOP/s: powers of ten.
export function metric(value: number, unit: string, digits = 4): string {
  const at = Math.max(2, Math.min(6, Math.floor(Math.log10(Math.max(1, value)) / 3)));
  return `${significant(value / 1000 ** at, digits)} ${' KMGTPE'[at]}${unit}`;
}

// 450 GB/s; gbit(…) for the same in bits.
export const rate = (bytes_s: number) => `${significant(bytes_s / 1e9, 4)} GB/s`;
export const gbit = (bytes_s: number) => `${significant((bytes_s * 8) / 1e9, 4)} Gb/s`;
