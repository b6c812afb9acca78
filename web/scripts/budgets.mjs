// What the page may weigh, in thousands of bytes (docs/decisions/016-size-of-the-page.md). The core counts as
// the page packs it, script and style by zlib's best.
import { gzipSync } from 'node:zlib';

export const kBudgets = { page: 865, core: 675, script: 182, style: 15 };

// The same parts of a page as it was packed.
export function sizesOf(html, page) {
  const inside = (open, close) => {
    const at = html.indexOf(open);
    if (at < 0) throw new Error(`no ${open} in the page`);
    const from = html.indexOf('>', at) + 1;
    return html.slice(from, html.indexOf(close, from));
  };
  const zipped = (text) => gzipSync(text, { level: 9 }).length / 1e3;
  return {
    page: page.length / 1e3,
    core:
      Buffer.from(inside('<script type="application/octet-stream" id="core"', '</script>'), 'base64').length /
      1e3,
    script: zipped(inside('<script type="module"', '</script>')),
    style: zipped(inside('<style', '</style>')),
  };
}

// One line for each part that weighs too much.
export const overBudget = (sizes) =>
  Object.entries(kBudgets)
    .filter(([part, most]) => sizes[part] > most)
    .map(
      ([part, most]) =>
        `the ${part} is ${sizes[part].toFixed(1)} KB, its budget ${most} KB: docs/decisions/016-size-of-the-page.md`,
    );
