import { expect, it } from 'vitest';
import { nearestPoint, planeOf, stepAt, xOf, yOf, type Drawing } from './chart';

const curve = (values: (number | null)[], steps = values.map((_, i) => i + 1)) => ({
  name: 'a',
  steps,
  values,
});
const drawing = (more: Partial<Drawing>): Drawing => ({
  width: 600,
  height: 200,
  curves: [curve([2, null, 4])],
  format: String,
  marks: [],
  events: [],
  ...more,
});

it('has all points, the plan and what is no number in its plane', () => {
  const plane = planeOf(drawing({ planned: 6, marks: [{ step: 9, key: 'loss', value: 'NaN' }] }));
  expect(plane.steps).toEqual([1, 9]);
  expect(plane.values[0]).toBeCloseTo(1.8);
  expect(plane.values[1]).toBeCloseTo(6.2);
});

it('begins at zero where that is asked, and leaves out what is above the cap', () => {
  const plane = planeOf(drawing({ zero: true, cap: 3 }));
  expect(plane.values[0]).toBe(0);
  expect(plane.values[1]).toBeCloseTo(3.05);
  expect(yOf(plane, 4)).toBeLessThan(plane.top);
});

it('finds the step under a point, and the point nearest to a step', () => {
  const plane = planeOf(drawing({}));
  expect(stepAt(plane, xOf(plane, 2))).toBeCloseTo(2);
  expect(stepAt(plane, -50)).toBe(1);
  const sparse = curve([1, 1, 1], [10, 20, 40]);
  expect([0, 14, 16, 29, 31, 99].map((step) => nearestPoint(sparse, step))).toEqual([0, 0, 1, 1, 2, 2]);
});

it('one step, or none, has room around it', () => {
  expect(planeOf(drawing({ curves: [curve([5])] })).steps).toEqual([0, 2]);
  expect(planeOf(drawing({ curves: [curve([])] })).values[0]).toBeLessThan(1);
});
