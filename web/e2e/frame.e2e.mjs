// The frame around all pages.
import { sourceHash, sources } from '../scripts/pack.mjs';

const kLight = '/plan?model=gpt2&cluster=h100-8&tp=2&pp=1&zero=1'; // a plan of milliseconds

export const tests = [
  {
    name: 'has four places, which the keyboard reaches',
    run: async (page, check) => {
      await page.open(kLight);
      for (const [key, place] of [
        ['1', 'Learn'],
        ['2', 'Plan'],
        ['3', 'Look inside'],
        ['4', 'Watch'],
      ]) {
        await page.keyboard.press(`Alt+${key}`);
        await page.settle();
        check.equal(
          await page.locator('nav[aria-label=Places] [aria-current=page]').textContent(),
          place,
          `Alt+${key}`,
        );
      }
    },
  },
  {
    name: 'keeps the theme that the reader chose, also in what is drawn on a canvas',
    fresh: true,
    run: async (page, check) => {
      await page.open('/learn/pipelines');
      // Idle time, at the right end of the last row.
      const ground = () =>
        page.evaluate(() => {
          const canvas = document.querySelector('.schedule canvas');
          return [
            ...canvas.getContext('2d').getImageData(canvas.width - 3, canvas.height - 9, 1, 1).data,
          ].join();
        });
      check.equal(await ground(), '237,237,232,255', 'idle in light');
      await page.getByRole('button', { name: /Theme/ }).click();
      check.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark', 'theme');
      check.equal(await ground(), '32,37,45,255', 'idle in dark');
    },
  },
  {
    name: 'says its version and that of its catalogue in the footer',
    run: async (page, check) => {
      await page.open(kLight);
      const foot = await page.locator('footer').innerText();
      check.that(/version \d+\.\d+\.\d+/.test(foot), foot);
      check.that(/catalogue \d+ models, [0-9a-f]{16}/.test(foot), foot);
    },
  },
  {
    name: 'has a map of its keys, and a switch that turns the single ones off',
    fresh: true,
    run: async (page, check) => {
      await page.open(kLight);
      const map = page.getByRole('region', { name: 'Keyboard map' });
      await page.keyboard.press('?');
      check.contains(await map.innerText(), 'm fullest moment');
      await page.keyboard.press('Escape');
      check.equal(await map.count(), 0, 'maps after Escape');
      await page.keyboard.press('/');
      check.equal(await page.evaluate(() => document.activeElement.tagName), 'SELECT', '/: the first field');
      await page.getByRole('button', { name: 'Keyboard map' }).click();
      await map.getByRole('checkbox').uncheck();
      await map.getByRole('button', { name: 'close' }).click();
      await page.keyboard.press('?');
      check.equal(await map.count(), 0, 'maps where single keys are off');
    },
  },
  {
    name: 'says that it loads, and keeps its frame meanwhile',
    fresh: true,
    run: async (page, check) => {
      await page.addInitScript(() => {
        const compile = WebAssembly.compile;
        WebAssembly.compile = async (...given) => {
          await new Promise((resolve) => (globalThis.letIn = resolve));
          return compile(...given);
        };
      });
      const opened = page.open(kLight).catch(() => {});
      await page.getByText(/Loading the planner/).waitFor();
      check.equal(await page.locator('nav[aria-label=Places] a').count(), 4, 'places');
      check.that(await page.getByLabel('Model', { exact: true }).isVisible(), 'the rail');
      await page.waitForFunction(() => globalThis.letIn);
      await page.evaluate(() => globalThis.letIn());
      await opened;
      check.contains(await page.locator('.verdict .says').innerText(), 'needs');
    },
  },
  {
    name: 'has its places at the bottom of a small screen, within reach of a thumb',
    options: { viewport: { width: 360, height: 740 } },
    run: async (page, check) => {
      await page.open(kLight);
      const box = await page.locator('nav[aria-label=Places]').boundingBox();
      check.equal(Math.round(box.y + box.height), 740, 'its lower edge');
      check.equal(box.height, 52, 'its height');
      for (const link of await page.locator('nav[aria-label=Places] a').all())
        check.that((await link.boundingBox()).width >= 44, 'a target');
    },
  },
  {
    name: 'is made from what it embeds, and from nothing of the tests',
    run: async (page, check) => {
      const names = sources().map((file) => file.replace(/.*\/(?=web\/|examples\/)/, ''));
      for (const one of ['examples/demo.toml', 'web/src/main.ts', 'web/scripts/budgets.mjs'])
        check.that(names.includes(one), `${one} counts`);
      check.equal(names.filter((name) => /test/.test(name)).join(' '), '', 'sources of tests');
      await page.open('/plan');
      const made = await page.locator('meta[name=studio-sources]').getAttribute('content');
      if (!process.env.STUDIO) check.equal(made, sourceHash(), 'the page is of these sources');
    },
  },
];
