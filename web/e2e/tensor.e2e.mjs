// The lesson on tensor and sequence parallelism.
const card = (page, title) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title }) });
const product = (page) => card(page, 'A product, split over ranks');
const numbersOf = async (matrix) =>
  (await matrix.getAttribute('aria-label'))
    .split(': ')[1]
    .split('; ')
    .map((row) => row.replaceAll('−', '-').split(' ').map(Number));

export const tests = [
  {
    name: 'columns need nothing forward, and stand side by side as the product',
    run: async (page, check) => {
      for (const ranks of [1, 2, 4, 8]) {
        await page.open(`/learn/tensor?split=column&ranks=${ranks}`);
        const said = await product(page).getByRole('status').last().textContent();
        check.contains(
          said,
          ranks === 1 ? 'nothing is sent' : 'Nothing is sent forward, 1 all-reduce backward',
        );
        check.contains(said, 'equal to that of one rank');
        const whole = await numbersOf(product(page).getByRole('img', { name: /^C, what/ }));
        const pieces = await Promise.all(
          (
            await product(page)
              .getByRole('img', { name: /^C of rank/ })
              .all()
          ).map(numbersOf),
        );
        check.equal(pieces.length, ranks, 'ranks');
        const joined = whole.map((_, r) => pieces.flatMap((piece) => piece[r]));
        check.equal(JSON.stringify(joined), JSON.stringify(whole), `side by side, ${ranks} ranks`);
      }
    },
  },
  {
    name: 'rows make partial sums, which add up to the product in one all-reduce',
    run: async (page, check) => {
      for (const ranks of [2, 4, 8]) {
        await page.open(`/learn/tensor?split=row&ranks=${ranks}`);
        const said = await product(page).getByRole('status').last().textContent();
        check.contains(said, 'One all-reduce of 32 numbers forward');
        const whole = await numbersOf(product(page).getByRole('img', { name: /^C, what/ }));
        const pieces = await Promise.all(
          (
            await product(page)
              .getByRole('img', { name: /partial sum/ })
              .all()
          ).map(numbersOf),
        );
        const sums = whole.map((row, r) =>
          row.map((_, c) => pieces.reduce((sum, piece) => sum + piece[r][c], 0)),
        );
        check.equal(JSON.stringify(sums), JSON.stringify(whole), `sums, ${ranks} ranks`);
      }
    },
  },
  {
    name: 'columns, GeLU, rows: exactly one all-reduce; 32 MiB of a real layer',
    run: async (page, check) => {
      await page.open('/learn/tensor?split=pair&ranks=4');
      const text = await product(page).textContent();
      check.equal(text.match(/all-reduce of \d+ numbers/g)?.length, 1, 'all-reduces forward');
      check.contains(text, 'GeLU');
      check.contains(text, '1 × 4,096 × 4,096 × 2 bytes = 32.0 MiB');
      check.contains(text, 'equal to that of one rank');
    },
  },
  {
    name: 'arrows move the marked number, whose partial sums add up; the address keeps it, reset forgets it',
    run: async (page, check) => {
      await page.open('/learn/tensor');
      const band = product(page).getByRole('group', { name: /The whole product/ });
      await band.focus();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowRight');
      check.contains(await page.address(), 'row=1&col=1');
      const said = await product(page).getByRole('status').last().textContent();
      const [, terms, whole] = /marked one: (.*) = (\S+)\./.exec(said);
      const number = (text) => Number(text.replace(/[()]/g, '').replace('−', '-'));
      const sum = terms.split(' + ').reduce((total, term) => total + number(term), 0);
      check.equal(sum, number(whole), said);
      await product(page).getByRole('button', { name: 'reset' }).click();
      check.that(!(await page.address()).includes('row='), 'reset');
    },
  },
  {
    name: 'heads are shared out',
    run: async (page, check) => {
      await page.open('/learn/tensor?split=heads&ranks=4');
      const text = await product(page).textContent();
      check.contains(text, '4 heads');
      const formula = product(page).locator('.formula').first();
      check.contains(await formula.getAttribute('aria-label'), 'H / t = 4 / 4 = 1');
      check.contains(text, 'One all-reduce of 32 numbers forward');
      const prose = (await page.locator('article').textContent()).replace(/\s+/g, ' ');
      check.contains(prose, '8 of 32 with four ranks');
    },
  },
  {
    name: 'volume and time, NVLink against InfiniBand',
    run: async (page, check) => {
      await page.open('/learn/tensor');
      const text = await card(page, 'All-reduces of tensor parallelism').textContent();
      for (const part of ['32.0 MiB', '128', '16.7 ms', '150.3 ms', '450 GB/s', '50 GB/s'])
        check.contains(text, part);
      await page.open('/learn/tensor?layers=126');
      check.contains(await card(page, 'All-reduces of tensor parallelism').textContent(), '504');
    },
  },
  {
    name: 'regions of sequence parallelism: two all-gathers and two reduce-scatters instead of two all-reduces',
    run: async (page, check) => {
      await page.open('/learn/tensor');
      const block = card(page, /A block on 4 ranks/);
      const columns = block.locator('.two > div');
      const casts = async (i) => (await columns.nth(i).locator('.cast b').allTextContents()).join(' ');
      check.equal(await casts(0), 'all-reduce all-reduce', 'tensor parallel');
      check.equal(
        await casts(1),
        'all-gather reduce-scatter all-gather reduce-scatter',
        'with sequence parallel',
      );
      check.that(!(await block.textContent()).includes('weight'), 'weights are no results');
      check.equal(await columns.nth(0).locator('.op.tokens').count(), 0, 'regions without');
      check.that((await columns.nth(1).locator('.op.tokens').count()) >= 4, 'regions with');
    },
  },
  {
    name: 'activations of a rank fall with sequence parallelism',
    run: async (page, check) => {
      await page.open('/learn/tensor');
      const bars = card(page, 'Activations of a micro-batch').locator('.bar');
      const values = (await bars.locator('.top-label').allTextContents()).map(Number);
      check.equal(values.length, 3, 'bars');
      check.near(values[1] / values[0], 13 / 34, 0.01, '(10 + 24/8) of 34');
      check.near(values[2] / values[0], 1 / 8, 0.01, 'an eighth');
    },
  },
];
