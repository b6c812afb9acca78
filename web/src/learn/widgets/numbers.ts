// What `numbers` answers.
import { significant } from '../../format/format';

export interface NumberType {
  name: string;
  bits: number;
  sign: string;
  exponent: string;
  mantissa: string;
  hex: string; // the highest byte first
  stored: number | null; // null where it is not finite
  stored_text: string;
  relative_error: number | null;
  spacing_at_value: number | null;
  max: number;
  min_normal: number;
}
export interface Numbers {
  types: NumberType[];
  updates: {
    bf16: [step: number, weight: number][];
    master: [number, number][];
    f32: [number, number][];
    lost: number;
    bf16_weight: number | null;
    master_weight: number | null;
    f32_weight: number | null;
    wanted: number;
  };
}

// "2^(123 − 127) · 1.1001101": what the bits say, with their numbers put in. No exponent bits: it is
// below what is normal, and the leading 1 is missing.
export function fromBits({ sign, exponent, mantissa }: NumberType): { power: string; digits: string } {
  const bias = 2 ** (exponent.length - 1) - 1;
  const stored = parseInt(exponent, 2);
  return {
    power: `${Math.max(1, stored)} − ${bias}`,
    digits: `${sign === '1' ? '−' : ''}${stored > 0 ? 1 : 0}.${mantissa}`,
  };
}

const kRaised = '⁰¹²³⁴⁵⁶⁷⁸⁹';
const raised = (power: number) =>
  String(power)
    .replace('-', '⁻')
    .replace(/\d/g, (digit) => kRaised[Number(digit)]!);
// 1.18 · 10⁻³⁸ where zeros would be many.
export function short(value: number | null, digits = 4): string {
  if (value === null) return '-';
  const size = Math.abs(value);
  if (size >= 1e3 && size < 1e6) return significant(value, digits);
  if (size === 0 || (size >= 1e-3 && size < 1e3)) return String(Number(value.toPrecision(digits)));
  const [front, power] = value.toExponential(digits - 1).split('e');
  return `${Number(front)}\u00a0·\u00a010${raised(Number(power))}`;
}

// "3f80" as "80 3f": the lowest byte first, as it lies in memory.
export function inMemory(hex: string): string {
  return (hex.match(/../g) ?? []).reverse().join(' ');
}
