// Every page for every reader: axe in both themes, small screens, large text, the keyboard.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { kPages } from './pages.mjs';

export const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export async function violations(page) {
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.map(
    (v) =>
      `${v.id}: ${v.nodes.length} times, first ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary?.split('\n')[1] ?? ''}`,
  );
}

// What is wider than the screen, but for what scrolls inside.
export const tooWide = () => {
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let up = element; up; up = up.parentElement) {
      if (up !== document.documentElement && /auto|scroll|hidden/.test(getComputedStyle(up).overflowX))
        return true;
    }
    return false;
  };
  return [...document.querySelectorAll('main *')]
    .filter(
      (e) =>
        e.getBoundingClientRect().right > width + 1 &&
        e.getBoundingClientRect().width > 0 &&
        !scrolls(e) &&
        !e.closest('.sr'),
    )
    .slice(0, 3)
    .map(
      (e) => `${e.tagName}.${e.className} reaches ${Math.round(e.getBoundingClientRect().right)} of ${width}`,
    );
};

const axeTests = kPages.map((place) => ({
  name: `${place} has nothing that axe objects to, in light and in dark`,
  options: { bypassCSP: true },
  run: async (page, check) => {
    await page.open(place);
    await page.evaluate(axe);
    for (const theme of ['light', 'dark']) {
      await page.evaluate((name) => (document.documentElement.dataset.theme = name), theme);
      for (const text of await violations(page)) check.that(false, `${theme}: ${text}`);
      check.that(true, '');
    }
  },
}));

const widthTests = [
  ['on 360 px', { viewport: { width: 360, height: 740 } }],
  ['at 200 % zoom', { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 }],
].map(([what, options]) => ({
  name: `no page is wider than the screen ${what}`,
  options,
  run: async (page, check) => {
    for (const place of kPages) {
      await page.open(place);
      const wide = await page.evaluate(tooWide);
      check.equal(wide.join('; '), '', place);
    }
  },
}));

export const tests = [
  ...axeTests,
  ...widthTests,
  {
    name: 'the keyboard alone reaches every control of the plan, in order, and sees where it is',
    run: async (page, check) => {
      await page.open('/plan');
      const controls = await page
        .locator('main :is(a[href], button, input, select, [tabindex="0"]):visible:not([disabled])')
        .count();
      const seen = new Set();
      for (let i = 0; i < controls + 20; ++i) {
        await page.keyboard.press('Tab');
        const at = await page.evaluate(() => {
          const e = document.activeElement;
          const inMain = e?.closest('main') !== null && e !== document.body;
          const style = getComputedStyle(e);
          const ring = style.outlineStyle !== 'none' || e.closest('label')?.matches(':focus-within');
          return inMain ? { path: [...document.querySelectorAll('*')].indexOf(e), ring } : null;
        });
        if (at) {
          seen.add(at.path);
          check.that(at.ring, `focus is not seen on element ${at.path}`);
        }
      }
      // A group of radio buttons is one stop.
      const radios = await page.locator('main input[type=radio]:visible').count();
      check.that(seen.size >= controls - radios, `${seen.size} of ${controls} controls reached`);
    },
  },
  {
    name: 'nothing moves for readers who asked for less motion',
    options: { reducedMotion: 'reduce' },
    run: async (page, check) => {
      await page.open('/learn/collectives');
      const moving = await page.evaluate(() => document.getAnimations().length);
      check.equal(moving, 0, 'animations');
    },
  },
];
