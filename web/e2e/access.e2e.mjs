// Every page for every reader: axe in both themes, small screens, large text, the keyboard.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { kLessons, kPages } from './pages.mjs';

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

// Something is done on small screens, not only shown: a slider that is moved with keys, steps that are clicked.
async function operate(page, check) {
  await page.open('/plan');
  const verdict = page.locator('.verdict .says');
  const before = await verdict.innerText();
  const change = page.getByRole('button', { name: 'Change' });
  if (await change.isVisible()) await change.click();
  await page.getByRole('slider', { name: /^tp/ }).focus();
  await page.keyboard.press('ArrowLeft');
  await page.settle();
  if (await change.count()) await page.keyboard.press('Escape');
  check.that((await verdict.innerText()) !== before, 'a slider of the plan changes its verdict');
  check.equal(await page.evaluate(tooWide).then((wide) => wide.join('; ')), '', 'the plan after a move');
  await page.open('/learn/collectives');
  const steps = page.getByRole('group', { name: 'steps', exact: true }).first();
  const at = await steps.locator('.where').innerText();
  await steps.getByRole('button', { name: 'Step' }).click(); // refused where something lies over it
  check.that((await steps.locator('.where').innerText()) !== at, `a step after '${at}'`);
  await page.open('/learn/serving');
  const card = page.locator('section.card', {
    has: page.getByRole('heading', { name: 'What serving keeps' }),
  });
  const says = await card.getByRole('status').last().innerText();
  await card.getByRole('slider', { name: /^tp/ }).focus();
  await page.keyboard.press('ArrowRight');
  await page.settle();
  check.that(
    (await card.getByRole('status').last().innerText()) !== says,
    'a slider of serving changes what it says',
  );
  check.equal(await page.evaluate(tooWide).then((wide) => wide.join('; ')), '', 'serving after a move');
}

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
    await operate(page, check);
  },
}));

// In the page: what the focus comes to, and whether that is seen.
const watchFocus = () => {
  globalThis.focused = new Map();
  document.addEventListener('focusin', ({ target }) => {
    if (!target.closest('main')) return;
    const style = getComputedStyle(target);
    const ring = style.outlineStyle !== 'none' || target.closest('label')?.matches(':focus-within');
    globalThis.focused.set(target, Boolean(ring));
  });
};
const kControls = ':is(a[href], button, input, select, summary, [tabindex="0"])';
const keyboardTests = kPages.map((place) => ({
  name: `${place}: the keyboard alone reaches every control, in order, and sees where it is`,
  run: async (page, check) => {
    await page.open(place);
    await page.evaluate(watchFocus);
    const controls = page.locator(`main ${kControls}:visible:not([disabled])`);
    const count = await controls.count();
    await page.evaluate(() => document.activeElement?.blur());
    for (let i = 0; i < count + 20; ++i) await page.keyboard.press('Tab');
    const found = await controls.evaluateAll((all) => {
      // A group of radio buttons is one stop; what is disabled is none.
      const groups = new Set([...globalThis.focused.keys()].map((e) => e.type === 'radio' && e.name));
      const isReached = (e) =>
        globalThis.focused.has(e) ||
        (e.type === 'radio' && groups.has(e.name)) ||
        e.tabIndex < 0 ||
        e.disabled;
      const name = (e) => `${e.tagName} ${(e.ariaLabel ?? e.textContent ?? '').trim().slice(0, 40)}`;
      const order = [...globalThis.focused.keys()].filter((e) => e.isConnected);
      return {
        missed: all.filter((e) => !isReached(e)).map(name),
        unseen: order.filter((e) => !globalThis.focused.get(e)).map(name),
        // Reading order: that of the document.
        back: order
          .filter(
            (e, i) => i > 0 && e.compareDocumentPosition(order[i - 1]) & Node.DOCUMENT_POSITION_FOLLOWING,
          )
          .map(name),
      };
    });
    check.that(count > 0, `${place} has controls`);
    check.equal(found.missed.join('; '), '', 'controls that Tab does not reach');
    check.equal(found.unseen.join('; '), '', 'controls that do not show the focus');
    check.equal(found.back.join('; '), '', 'controls out of order');
  },
}));

// Pictures that are stepped through, with fewer motions than there could be.
const motionTests = kLessons.map((lesson) => ({
  name: `${lesson}: nothing moves for readers who asked for less motion, and steps jump`,
  options: { reducedMotion: 'reduce' },
  run: async (page, check) => {
    await page.open(`/learn/${lesson}`);
    const moving = () =>
      page.evaluate(() => document.getAnimations().filter((one) => one.playState === 'running').length);
    check.equal(await moving(), 0, 'animations of the page');
    for (const steps of await page.getByRole('group', { name: 'steps', exact: true }).all()) {
      const where = () => steps.locator('.where').innerText();
      const at = async () => Number(/^(\d+) of/.exec(await where())?.[1]);
      const first = await at();
      await page.waitForTimeout(300);
      check.equal(await at(), first, 'nothing plays by itself');
      const forward = steps.getByRole('button', { name: 'Step' });
      if (!(await forward.isDisabled())) await forward.click();
      check.equal(await moving(), 0, 'animations after a step');
      await steps.getByRole('button', { name: 'Start over' }).click();
      check.equal(await at(), 0, 'at the start');
      await steps.getByLabel('speed').selectOption('4');
      await steps.getByRole('button', { name: 'Play' }).click();
      await page.waitForFunction((text) => document.body.innerText.includes(text), '1 of ');
      check.equal(await moving(), 0, 'animations while it plays');
      const pause = steps.getByRole('button', { name: 'Pause' });
      if (await pause.count()) await pause.click({ timeout: 2000 }).catch(() => {}); // it may have ended
    }
    for (const slider of (await page.locator('main section.card input[type=range]').all()).slice(0, 6)) {
      await slider.focus();
      await page.keyboard.press('ArrowRight');
      check.equal(await moving(), 0, 'animations after a move of a slider');
    }
  },
}));

export const tests = [...axeTests, ...widthTests, ...keyboardTests, ...motionTests];
