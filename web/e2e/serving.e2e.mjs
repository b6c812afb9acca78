// The lesson on serving: what the plan of a served model and the scheduler that serves say, read off the page.
const card = (page, title) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title, exact: true }) });
const textOf = async (locator) => (await locator.innerText()).replaceAll('\u00a0', ' ').replace(/\s+/g, ' ');
const figure = (widget, name) => widget.locator(`[data-figure=${name}]`);
const numberIn = async (locator) => Number.parseFloat((await locator.innerText()).replaceAll(',', ''));
const type = async (page, widget, label, value) => {
  const field = widget.getByLabel(`${label}, as a number`);
  await field.fill(String(value));
  await field.press('Enter');
  await page.settle();
};

export const tests = [
  {
    name: 'what serving keeps: Llama 3 70B on eight H100, tp 4 and pp 2, to the byte',
    run: async (page, check) => {
      await page.open('/learn/serving');
      const keeps = card(page, 'What serving keeps');
      const text = await textOf(keeps);
      // As docs/kv-cache.md prints it: 2 * 80 * 8 * 128 * 2 bytes of a token, and the line of its pages.
      check.contains(text, 'Fits: 89,451 pages of 16 tokens, room for 174 texts of 8,192 tokens at once.');
      check.contains(text, '1,397 of 1,024 tokens at once, most');
      const formulas = await keeps
        .locator('.formula')
        .evaluateAll((all) => all.map((one) => one.getAttribute('aria-label')));
      check.contains(formulas[0], '2 * 80 * 8 * 128 * 2 = 320.0 KiB');
      check.contains(formulas[1], '(78430000000 - 18341630528 - 5120) / 671744 = 89451 pages');
      check.equal(2 * 80 * 8 * 128 * 2, 320 * 1024, 'bytes of a token');
      check.equal(Math.floor((78430000000 - 18341630528 - 5120) / 671744), 89451, 'pages');
      check.equal(
        (await keeps.locator('.bar .top-label').allTextContents()).join(' '),
        '73.0 69.5',
        'GiB by stage',
      );
      check.contains(text, 'cache 56.0 GiB', 'cache of the fullest rank');
      check.contains(text, '--serve llama-3-70b --cluster h100-8 --mesh tp=4,pp=2 --max-context 8192');
    },
  },
  {
    name: 'pages of the cache: heads over tp, layers over pp; tp that key heads do not divide',
    run: async (page, check) => {
      await page.open('/learn/serving');
      const keeps = card(page, 'What serving keeps');
      const ranks = () =>
        keeps.locator('[data-rank]').evaluateAll((all) => all.map((one) => one.getAttribute('aria-label')));
      check.equal(
        (await ranks()).join('; '),
        [0, 1, 2, 3, 4, 5, 6, 7]
          .map((rank) => `rank ${rank}: heads ${2 * (rank % 4)}-${2 * (rank % 4) + 1}`)
          .join('; '),
        'key heads of every rank',
      );
      check.contains(await textOf(keeps), 'stage 0, layers 0-40');
      check.contains(await textOf(keeps), 'stage 1, layers 41-79');
      await type(page, keeps, 'tp', 16);
      await type(page, keeps, 'pp', 1);
      check.equal((await ranks()).length, 16, 'ranks');
      check.equal((await ranks())[15], 'rank 15: heads 0-7', 'all key heads');
      check.contains(await textOf(keeps), '16 ranks cannot share 8 key heads');
      check.contains(await textOf(keeps), '--cluster h100-16');
    },
  },
  {
    name: 'what does not fit says what it needs; a change of the core makes it fit',
    run: async (page, check) => {
      await page.open('/learn/serving?kv_tp=1&kv_pp=1');
      const keeps = card(page, 'What serving keeps');
      check.contains(await textOf(keeps), 'Does not fit: rank 0 needs 132.0 GiB beside the cache');
      check.equal(await keeps.locator('.bar.over').count(), 1, 'the bar over the limit is marked');
      const changes = keeps.locator('.changes button');
      check.that((await changes.count()) >= 1, 'changes');
      await changes.first().click();
      await page.settle();
      check.contains(await textOf(keeps), 'Fits:');
    },
  },
  {
    name: 'a prompt in chunks: frames follow one another through the stages, and beat one piece',
    run: async (page, check) => {
      await page.open('/learn/serving');
      const prompt = card(page, 'A prompt through the stages');
      // 8 chunks of 512 tokens take 2 + 5.12 ms on each of 4 stages: 11 turns. One piece: 4 turns of 2 + 40.96 ms.
      check.equal(await figure(prompt, 'frames').innerText(), '8', 'chunks');
      check.near(await numberIn(figure(prompt, 'chunks')), 11 * 7.12, 1e-3, 'first token in chunks');
      check.near(await numberIn(figure(prompt, 'whole')), 4 * 42.96, 1e-3, 'first token in one piece');
      await prompt.getByRole('button', { name: 'table' }).click();
      const rows = await prompt
        .locator('.scroll tbody tr')
        .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
      const timesOf = (cell) => cell.split('-').map(Number);
      rows.forEach((row, i) => {
        for (let stage = 1; stage < 4; ++stage) {
          const [before, now] = [timesOf(row[stage]), timesOf(row[stage + 1])];
          check.that(
            now[0] >= before[1] - 1e-9,
            `frame ${i} reaches stage ${stage} after it left the one before`,
          );
        }
        check.equal(row.at(-2), `A ${512 * i}-${512 * i + 511}`, `tokens of chunk ${i}`);
      });
      await prompt.getByRole('button', { name: 'table' }).click();
      // A frame that is selected says what is in it.
      const canvas = prompt.locator('canvas').first();
      await canvas.focus();
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('ArrowRight');
      check.contains(
        await textOf(prompt),
        "Frame 1, on stage 0 from 7.12 ms to 14.24 ms: tokens 512 to 1,023 of A's prompt.",
      );
      check.contains(await textOf(prompt), '512 of at most 512 tokens');
      await type(page, prompt, 'stages', 1);
      check.that(
        (await numberIn(figure(prompt, 'chunks'))) > (await numberIn(figure(prompt, 'whole'))),
        'on one stage chunks only cost',
      );
    },
  },
  {
    name: 'requests take turns: groups fill the stages, a budget, pages that run out preempt',
    run: async (page, check) => {
      await page.open('/learn/serving');
      const turns = card(page, 'Requests that take turns');
      const busy = async () => numberIn(figure(turns, 'busy'));
      const six = await busy();
      check.equal(await figure(turns, 'preemptions').innerText(), '0', 'preempted');
      check.equal(await turns.locator('tbody tr').count(), 6, 'requests');
      await type(page, turns, 'requests', 1);
      check.that((await busy()) < six / 2, `one request leaves stages idle: ${await busy()} % of ${six} %`);
      await type(page, turns, 'requests', 6);
      // 6 requests of 256 + 8 tokens take 17 pages each.
      await turns.getByRole('slider', { name: /^pages/ }).focus();
      await turns.getByLabel('pages, 0: enough, as a number').fill('64');
      await turns.getByLabel('pages, 0: enough, as a number').press('Enter');
      await page.settle();
      const curve = await turns.locator('svg[aria-label^="Pages of the cache"]').getAttribute('aria-label');
      const [, most, all] = /at most (\d+) of (\d+)/.exec(curve) ?? [];
      check.equal(all, '64', 'pages');
      check.that(Number(most) <= 64, `never more than there are: ${curve}`);
      check.contains(await page.address(), 'dg_pages=64');
      // Answers that are longer than expected.
      await page.getByRole('button', { name: 'Show it.' }).click();
      await page.settle();
      check.that((await numberIn(figure(turns, 'preemptions'))) > 0, 'requests are preempted');
      check.that((await numberIn(figure(turns, 'again'))) > 0, 'tokens are computed again');
    },
  },
];
