// The valid value that is nearest: by ratio, for sizes that double; by difference at zero and below.
export function nearest(values: readonly number[], wanted: number): number {
  const distance = (value: number) =>
    value > 0 && wanted > 0 ? Math.max(value / wanted, wanted / value) : 1 + Math.abs(value - wanted);
  return values.reduce((best, value) => (distance(value) < distance(best) ? value : best), values[0]!);
}
export const powersOfTwo = (from: number, to: number) => {
  const values = [];
  for (let value = from; value <= to; value *= 2) values.push(value);
  return values;
};
