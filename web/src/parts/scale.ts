// Round numbers along an axis.
export type Scale = 'linear' | 'log';

// `range` is in powers of ten where the scale is logarithmic.
export function ticksOf(range: [number, number], scale: Scale | undefined, most: number): number[] {
  const [low, high] = range;
  if (scale === 'log') {
    const every = Math.max(1, Math.ceil((high - low) / most));
    const ticks = [];
    for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power += every) ticks.push(10 ** power);
    return ticks;
  }
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= raw) ?? 10);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) {
    ticks.push(Number(tick.toPrecision(12)));
  }
  return ticks;
}
