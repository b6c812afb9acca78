// The lesson on contexts: blocks go round in N-1 hops, memory is 1/N.
const card = (page, title) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title }) });

export const tests = [
  {
    name: 'keys and values rotate N-1 steps, until every rank has seen every block',
    run: async (page, check) => {
      await page.open('/learn/context?cp=4&hop=0');
      const ring = card(page, 'Keys and values round a ring');
      const blocks = async () => (await ring.locator('.moves').allTextContents()).join('; ');
      const seen = [new Set(), new Set(), new Set(), new Set()];
      for (let hop = 0; ; ++hop) {
        (await ring.locator('.moves').allTextContents()).forEach((text, rank) => seen[rank].add(text));
        if (hop === 3) break;
        await ring.getByRole('button', { name: 'Step' }).click();
      }
      check.equal(
        await blocks(),
        'keys, values 1; keys, values 2; keys, values 3; keys, values 0',
        'at the end',
      );
      check.that(
        seen.every((blocks) => blocks.size === 4),
        'every rank saw every block',
      );
      check.contains(await ring.textContent(), '16 of 16 blocks of scores are done, after 3 of 3 hops');
      check.that(await ring.getByRole('button', { name: 'Step' }).isDisabled(), 'there is no fourth hop');
      check.contains(await page.address(), 'hop=3', 'address');
      const formula = await ring.locator('.formula').getAttribute('aria-label');
      check.contains(formula, 'k - 1 = 4 - 1 = 3', 'formula');
      await ring.getByRole('button', { name: 'Back' }).focus();
      await page.keyboard.press('ArrowLeft');
      check.contains(await ring.textContent(), 'after 2 of 3 hops');
      await ring.getByRole('button', { name: 'reset' }).click();
      check.that(!(await page.address()).includes('hop='), 'reset');
    },
  },
  {
    name: 'activations with and without, hops and their bytes',
    run: async (page, check) => {
      await page.open('/learn/context');
      const text = await card(page, 'One layer of Llama 3 405B').textContent();
      for (const part of ['8,192', '15', '33.55 MB', '671 µs', '4.398 TFLOP', '73.0', '4.6'])
        check.contains(text, part);
    },
  },
  {
    name: '16 ranks have 15 hops',
    run: async (page, check) => {
      await page.open('/learn/context?cp=16&hop=15');
      check.contains(
        await card(page, 'Keys and values round a ring').textContent(),
        '256 of 256 blocks of scores are done, after 15 of 15 hops',
      );
    },
  },
];
