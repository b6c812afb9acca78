// One bar of stacked parts.
export interface Bar {
  label: string;
  parts: { name: string; color: string; value: number }[]; // from the bottom up
  under?: string; // the cause, below the label
  before?: number; // the total in what it is compared with: a line
}
export const totalOf = (bar: Bar) => bar.parts.reduce((sum, part) => sum + part.value, 0);
