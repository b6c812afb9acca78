// What a reader takes home: tables as CSV, pictures as SVG with their colours put in.
import type { Explained } from '../core/types';

export interface Table {
  columns: string[];
  rows: (string | number)[][];
}

export const explainedTable = (results: Record<string, Explained>): Table => ({
  columns: ['what', 'formula', 'value', 'unit'],
  rows: Object.values(results).map((one) => [one.what, one.formula, one.value, one.unit]),
});

export function saveText(name: string, text: string, type: string) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const fileName = (title: string) => title.toLowerCase().replace(/[^a-z0-9]+/g, '-');

export function csvOf({ columns, rows }: Table): string {
  const cell = (value: string | number) =>
    /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  return [columns, ...rows].map((row) => row.map(cell).join(',')).join('\n') + '\n';
}
export function saveCsv(title: string, table: Table) {
  saveText(`${fileName(title)}.csv`, csvOf(table), 'text/csv');
}

const kDrawn = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'font', 'opacity', 'text-anchor'];

// The colours of a picture come from the page's style sheet: outside of it they must be its own.
export function saveSvg(title: string, svg: SVGElement | null | undefined) {
  if (!svg) return;
  const copy = svg.cloneNode(true) as SVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>('*')];
  [copy, ...copy.querySelectorAll<SVGElement>('*')].forEach((element, i) => {
    const style = getComputedStyle(from[i]!);
    for (const name of kDrawn) element.style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  saveText(`${fileName(title)}.svg`, copy.outerHTML, 'image/svg+xml');
}
