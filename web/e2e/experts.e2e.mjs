// The lesson on experts: tokens go there and back, the fullest expert sets the pace.
const card = (page) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: 'Tokens, there and back' }) });
const tokensIn = async (place) =>
  (await place.locator('.token').allTextContents()).map((text) => text.trim());
const numbers = async (cells) => (await cells.allTextContents()).map(Number);
const sum = (values) => values.reduce((a, b) => a + b, 0);

export const tests = [
  {
    name: 'tokens are at home, go to the ranks of their experts, and come back',
    run: async (page, check) => {
      await page.open('/learn/experts?at=0&capacity=0');
      const home = await tokensIn(card(page));
      check.equal(home.length, 32, 'tokens at home');
      const chosen = home.flatMap((text) => text.split(' → ')[1].split(' '));
      check.equal(chosen.length, 64, 'two experts each');
      await card(page).getByRole('button', { name: 'Step' }).click();
      check.contains(await page.address(), 'capacity=0', 'address');
      for (const [i, expert] of (await card(page).locator('.expert').all()).entries()) {
        const wanted = home.filter((text) => text.split(' → ')[1].split(' ').includes(String(i)));
        check.equal(
          (await tokensIn(expert)).join(' '),
          wanted.map((text) => text.split(' ')[0]).join(' '),
          `who comes to expert ${i}`,
        );
      }
      await card(page).getByRole('button', { name: 'Step' }).click();
      check.equal(
        (await tokensIn(card(page))).join(),
        home.map((text) => text.replace('→', '←')).join(),
        'back at home, with the outputs of all',
      );
    },
  },
  {
    name: 'an expert has room for 1.25 times an even share: 10 of 32 · 2 / 8; what is beyond is marked',
    run: async (page, check) => {
      await page.open('/learn/experts');
      const text = await card(page).textContent();
      check.contains(text, 'capacity 10');
      const formulas = await card(page)
        .locator('.formula')
        .evaluateAll((all) => all.map((one) => one.ariaLabel));
      check.contains(formulas[0], '1.25 * 32 * 2 / 8');
      check.contains(formulas[0], '= 10');
      const loads = await numbers(card(page).locator('.bar .top-label'));
      check.equal(sum(loads), 64, 'two rows of every token');
      check.contains(text, `busiest over an even share: ${Math.max(...loads) / 8}`);
      const over = sum(loads.map((load) => Math.max(0, load - 10)));
      check.equal(await card(page).locator('.token.lost').count(), over, 'without room');
      check.contains(text, `${((100 * over) / 64).toFixed(1)} %`);
      const received = await numbers(card(page).locator('tr.sum td'));
      check.equal(sum(received), 64 - over, 'rows that arrive');
    },
  },
  {
    name: 'a larger capacity drops fewer, a biased router more; even shares fill all',
    run: async (page, check) => {
      const lost = async (params) => {
        await page.open(`/learn/experts?at=1&${params}`);
        return card(page).locator('.token.lost').count();
      };
      const [one, two, none] = [
        await lost('capacity=1&skew=0.5'),
        await lost('capacity=2&skew=0.5'),
        await lost('capacity=0&skew=0.5'),
      ];
      check.that(one > two && two > none && none === 0, `dropped: ${one}, ${two}, ${none}`);
      check.that((await lost('skew=1')) > (await lost('skew=0')), 'a biased router');
    },
  },
  {
    name: 'a token is followed by the keyboard, the address keeps it, reset forgets it; the command says the same',
    run: async (page, check) => {
      await page.open('/learn/experts');
      await card(page).getByRole('button', { name: 'token 9', exact: true }).first().focus();
      await page.keyboard.press('Enter');
      check.contains(await card(page).locator('.path').textContent(), 'Token 9, at home on rank 1');
      check.contains(await page.address(), 'token=9');
      check.contains(
        await card(page).locator('.foot').last().textContent(),
        'tessera show experts --tokens 32 --experts 8 --top-k 2 --ranks 4 --capacity-factor 1.25 --skew 0.4 --seed 1',
      );
      await card(page).getByRole('button', { name: 'reset' }).click();
      check.that(!(await page.address()).includes('token='), 'reset');
    },
  },
  {
    name: 'weights, and those that a token meets; room of 320 rows is right',
    run: async (page, check) => {
      await page.open('/learn/experts');
      const table = await page.locator('article').textContent();
      check.contains(table.replace(/\s+/g, ' '), 'mixtral-8x7b');
      const quiz = page.locator('section.card', { hasText: 'for how many rows' });
      await quiz.getByRole('button', { name: 'Hint' }).click();
      check.contains(await quiz.textContent(), 'tessera show experts --tokens 1024');
      check.contains(await quiz.textContent(), 'tessera::ask("experts"');
      await quiz.getByRole('textbox').fill('320');
      await quiz.getByRole('button', { name: 'Check' }).click();
      await quiz.getByText('Right: 320').waitFor();
    },
  },
];
