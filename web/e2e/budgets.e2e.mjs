// How long the page takes, against its budgets. Figures are printed (bench/results/studio.md keeps them);
// a test fails only far above its budget, because machines that test are shared.
import { readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { gunzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';
import { kBudgets, overBudget, sizesOf } from '../scripts/budgets.mjs';

const kSlack = Number(process.env.BUDGET_SLACK ?? 6);
// What else runs here takes its share.
const crowd = () => Math.max(1, loadavg()[0] / cpus().length);
// The budget of a slider is that of the sizes that the page opens with: three values to either side, there
// and back. A walk to far larger sizes is printed as well.
const kNear = [1, 1, 1, -1, -1, -1, -1, -1, -1, 1, 1, 1];
const kNearWalks = 3;
const kFar = Array(24).fill(1);

const shownAs = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
function figure(check, name, value, budget, unit = 'ms', slack = kSlack * crowd()) {
  const shown = shownAs(value);
  console.log(`       ${name}: ${shown} ${unit} (budget ${budget} ${unit})`);
  check.that(
    value <= budget * slack,
    `${name}: ${shown} ${unit} is over ${slack.toFixed(1)} times ${budget} ${unit}`,
  );
}
const quantile = (values, q) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.ceil(q * values.length) - 1)];

// In the page: moves a slider by `moves`, the other way where it ends; from each move to the frame that
// shows its answer. What is shown is `result`: it has changed, and nothing in it waits for the core.
async function movesToPaint({ slider, result, moves, restMs }) {
  const input = document.querySelector(slider);
  const shown = document.querySelector(result);
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const painted = () => new Promise((resolve) => setTimeout(resolve)); // after the frame's own work
  const times = [];
  let way = 1;
  input.focus(); // a hand is on it before it moves
  await new Promise((resolve) => setTimeout(resolve, 800));
  for (const move of moves) {
    const [least, most, at] = [Number(input.min), Number(input.max), Number(input.value)];
    if (at + way * move > most || at + way * move < least) way = -way;
    const by = way * move;
    let changed = false;
    const watch = new MutationObserver(() => (changed = true));
    watch.observe(shown, { subtree: true, childList: true, characterData: true, attributes: true });
    const began = performance.now();
    set.call(input, String(at + by));
    input.dispatchEvent(new Event('input', { bubbles: true }));
    const waits = () => shown.dataset.busy === 'true' || shown.querySelector('[data-busy=true]') !== null;
    do await frame();
    while ((!changed || waits()) && performance.now() - began < 5000);
    await painted();
    times.push(performance.now() - began);
    watch.disconnect();
    await new Promise((resolve) => setTimeout(resolve, restMs));
  }
  return times;
}

async function measureSlider(page, check, name, slider, result) {
  const walk = (moves) => page.evaluate(movesToPaint, { slider, result, moves, restMs: 60 });
  const near = await walk(Array(kNearWalks).fill(kNear).flat());
  figure(check, `${name}, slider to paint, median`, quantile(near, 0.5), 50);
  figure(check, `${name}, slider to paint, p95`, quantile(near, 0.95), 50);
  const far = await walk(kFar);
  const [half, most] = [0.5, 0.95].map((q) => shownAs(quantile(far, q)));
  console.log(`       ${name}, to the largest sizes, median and p95: ${half} and ${most} ms (no budget)`);
}

// The longest time that the page did not answer, while `work` is done.
async function longestBlock(page, work) {
  await page.evaluate(() => {
    globalThis.longest = 0;
    let last = performance.now();
    globalThis.ticking = setInterval(() => {
      const now = performance.now();
      globalThis.longest = Math.max(globalThis.longest, now - last - 5);
      last = now;
    }, 5);
  });
  await work();
  return page.evaluate(() => (clearInterval(globalThis.ticking), globalThis.longest));
}

const kLessonSliders = [
  ['ZeRO', '/learn/zero'],
  ['pipelines', '/learn/pipelines'],
  ['ring', '/learn/collectives'],
];

const measured = [
  {
    name: 'sizes of the page',
    run: async (page, check) => {
      const html = readFileSync(
        process.env.STUDIO ?? fileURLToPath(new URL('../dist/studio.html', import.meta.url)),
      );
      const packed = readFileSync(new URL('../studio.html.gz', import.meta.url));
      check.that(gunzipSync(packed).equals(html), 'the packed page is this page');
      const sizes = sizesOf(html.toString(), packed);
      for (const [part, most] of Object.entries(kBudgets))
        figure(check, `${part}, packed`, sizes[part], most, 'KB', 1);
      check.equal(
        overBudget({ ...sizes, core: kBudgets.core + 1 }).length,
        1,
        'a core that is too large is refused',
      );
      figure(check, 'studio.html', html.length / 1e6, 3, 'MB', 1);
    },
  },
  {
    name: 'first load: the frame, the core, the first plan',
    run: async (page, check) => {
      await page.addInitScript(() => {
        globalThis.since = {};
        new MutationObserver(() => {
          const note = (name, holds) => holds && (globalThis.since[name] ??= performance.now());
          note('frame', document.querySelector('nav[aria-label=Places]'));
          note('plan', document.querySelector('.verdict .says')?.textContent.includes('needs'));
        }).observe(document, { subtree: true, childList: true, characterData: true });
      });
      await page.open('/plan');
      const since = await page.evaluate(() => ({
        ...globalThis.since,
        core: performance.getEntriesByName('core')[0].startTime,
      }));
      figure(check, 'first load, the frame is there', since.frame, 300);
      figure(check, 'first load, the core is ready', since.core - since.frame, 150);
      figure(check, 'first load, the plan is shown', since.plan, 1000);
    },
  },
  {
    name: 'plan: slider to paint',
    run: async (page, check) => {
      await page.open('/plan');
      await measureSlider(page, check, 'plan, tp', '.rail input[type=range]', '.verdict');
    },
  },
  ...kLessonSliders.map(([name, place]) => ({
    name: `${name}: slider to paint`,
    run: async (page, check) => {
      await page.open(place);
      await page.evaluate(() => {
        const slider = document.querySelector('main section.card input[type=range]');
        slider.dataset.test = 'slider';
        slider.closest('section.card').dataset.test = 'result';
      });
      await measureSlider(page, check, name, '[data-test=slider]', '[data-test=result]');
    },
  })),
  {
    name: 'searches 70B on 256 A100 in a worker, and the page stays free',
    run: async (page, check) => {
      await page.open(
        '/plan?model=llama-3-70b&cluster=a100-256&tp=8&pp=4&zero=1&global_batch=1024&seq_len=4096',
      );
      let seconds = 0;
      const blocked = await longestBlock(page, async () => {
        const began = Date.now();
        await page.getByRole('button', { name: 'Search', exact: true }).click();
        await page.getByText(/The best takes/).waitFor({ timeout: 50_000 });
        seconds = (Date.now() - began) / 1000;
      });
      figure(check, 'search of 70B on 256 A100', seconds, 4, 's');
      figure(check, 'search, longest time without an answer of the page', blocked, 100);
    },
  },
  {
    name: 'draws 24,576 ranks',
    run: async (page, check) => {
      await page.open(
        '/inside/ranks?model=llama-3-405b&cluster=h100-24576&tp=8&pp=16&zero=1&global_batch=3072&seq_len=8192&sequence_parallel=true',
      );
      const grid = page.locator('canvas[data-drawn-ms]').first();
      await grid.waitFor({ timeout: 50_000 });
      check.equal(await grid.getAttribute('aria-valuemax'), '24575', 'the last rank');
      await grid.focus();
      const drawn = [];
      for (let i = 0; i < 12; ++i) {
        await page.keyboard.press('ArrowRight');
        drawn.push(Number(await grid.getAttribute('data-drawn-ms')));
      }
      figure(check, 'grid of 24,576 ranks, drawn', quantile(drawn, 0.95), 100);
    },
  },
];
// Each alone in a page of its own.
export const tests = measured.map((test) => ({ ...test, fresh: true }));
