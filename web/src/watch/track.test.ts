import { describe, expect, it } from 'vitest';
import { capOf, curveOf, highest } from './curves';
import { numbersOf, Track, trackOf } from './track';

describe('Track', () => {
  it('holds lines in order, with gaps where a line lacks a key', () => {
    const track = new Track();
    track.add({ step: 1, loss: 5 });
    track.add({ step: 2, loss: 4, phase_ms: { forward: 3 } });
    expect(track.points.step).toEqual([1, 2]);
    expect(track.points.values.get('phase_ms.forward')).toEqual([null, 3]);
    expect(track.at('loss', 1)).toBe(5);
    expect(track.at('loss', 0)).toBeNull();
  });
  it('marks what is not a number, and keeps the gap', () => {
    const track = trackOf('{"step":1,"loss":1}\n{"step":2,"loss":"NaN"}\n{"step":3,"lo');
    expect(track.points.values.get('loss')).toEqual([1, null]);
    expect(track.notFinite).toEqual([{ step: 2, key: 'loss', value: 'NaN' }]);
  });
  it('replaces the steps that a resumed run does again', () => {
    const track = new Track();
    for (const step of [1, 2, 3, 4]) track.add({ step, loss: step });
    track.add({ event: 'resume', step: 2 });
    track.add({ step: 3, loss: 30 });
    expect(track.points.step).toEqual([1, 2, 3]);
    expect(track.points.values.get('loss')).toEqual([1, 2, 30]);
    expect(track.events).toHaveLength(1);
  });
  it('goes on after what a server gave, bands and all', () => {
    const track = new Track('demo');
    track.begin({
      complete: true,
      next: '4.1.x',
      step: [2, 4],
      per_point: 2,
      first_step: 1,
      last_step: 4,
      keys: ['loss'],
      series: { loss: { mean: [3, 2], low: [2, 1], high: [4, 3] } },
      not_finite: [],
      events: [],
    });
    track.add({ step: 5, loss: 1.5 });
    expect(track.points.values.get('loss')).toEqual([3, 2, 1.5]);
    expect(track.points.high.get('loss')).toEqual([4, 3, 1.5]);
  });
});

describe('curves', () => {
  it('end at the step of a replay', () => {
    const track = trackOf('{"step":1,"loss":1}\n{"step":2,"loss":2}\n{"step":3,"loss":3}\n');
    expect(curveOf(track, 'loss', 'a', { from: 0, to: 2 }).values).toEqual([1, 2]);
    expect(curveOf(track, 'loss', 'a', { from: 2, to: 9 }).steps).toEqual([2, 3]);
  });
  it('name what leaves the scale', () => {
    const values = [...Array(99).fill(1), 100];
    expect(capOf(values)).toBeLessThan(3);
    const steps = values.map((_, i) => i);
    expect(highest({ name: 'a', steps, values })).toEqual({ step: 99, value: 100 });
    expect(capOf([1, 2, 3])).toBeUndefined();
  });
  it('take numbers of objects one level deep', () => {
    expect(numbersOf({ step: 1, a: 1, b: { c: 2, d: 'x' }, e: [1] })).toEqual([
      ['a', 1],
      ['b.c', 2],
    ]);
  });
});

it('a file of many lines becomes as many points as are drawn well', () => {
  const text = Array.from({ length: 10_000 }, (_, i) => `{"step":${i + 1},"loss":${i === 4321 ? 1e6 : 1}}`);
  const { points } = trackOf(text.join('\n') + '\n');
  expect(points.step).toHaveLength(2000);
  expect(points.step.at(-1)).toBe(10_000);
  expect(Math.max(...(points.high.get('loss') as number[]))).toBe(1e6); // a spike of one step is not lost
});
