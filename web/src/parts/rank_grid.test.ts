import { describe, expect, it } from 'vitest';
import { layoutOf, placeOf, rankAt } from './rank_grid';

describe('layoutOf', () => {
  it('puts nodes in boxes and finds every tile again, at any size', () => {
    for (const [world, node, width] of [
      [64, 8, 1000],
      [1120, 8, 328],
      [24576, 8, 1080],
      [72, 72, 328],
      [30, 8, 600],
    ] as const) {
      const layout = layoutOf(world, node, width);
      for (let rank = 0; rank < world; rank += 7) {
        const { x, y } = placeOf(layout, rank);
        expect(x + layout.tile).toBeLessThanOrEqual(width + layout.gap);
        expect(rankAt(layout, x + 1, y + 1)).toBe(rank);
      }
    }
  });
  it('has nothing beyond the last rank and between boxes', () => {
    const layout = layoutOf(12, 8, 1000);
    const { x, y } = placeOf(layout, 11);
    expect(rankAt(layout, x + layout.tile + 1, y)).toBeUndefined();
    expect(rankAt(layout, layout.nodeColumns * layout.tile + 1, 1)).toBeUndefined();
  });
  it('keeps 24,576 tiles within the height of a screen', () => {
    expect(layoutOf(24576, 8, 1080).height).toBeLessThanOrEqual(520);
  });
});
