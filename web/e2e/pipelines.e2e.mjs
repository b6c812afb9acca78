// The lesson on pipelines: the numbers that its widgets must show.
const at = (params) => `/learn/pipelines?${new URLSearchParams(params)}`;
const bubbleOf = (page, schedule) =>
  page.locator(`[data-schedule="${schedule}"] .bubble-value`).textContent();
const card = (page, title) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title }) });

async function bubbleAt(page, schedule, p, m, more = {}) {
  await page.open(at({ schedule, beside: 'none', p, m, ...more }));
  return bubbleOf(page, schedule);
}
const formulaIn = (page) =>
  page.locator('[data-schedule] .formula').first().getAttribute('aria-label', { timeout: 2000 });

export const tests = [
  {
    name: 'bubbles of 1F1B by stages and micro-batches, played and by the formula',
    run: async (page, check) => {
      for (const [p, m, percent] of [
        [4, 4, '42.9 %'],
        [4, 8, '27.3 %'],
        [4, 16, '15.8 %'],
        [4, 32, '8.6 %'],
        [16, 8, '65.2 %'],
        [16, 64, '19.0 %'],
      ]) {
        check.equal(await bubbleAt(page, '1f1b', p, m), percent, `1f1b, ${p} ranks, ${m} micro-batches`);
        check.contains(await formulaIn(page), `= ${percent}`, 'formula');
      }
    },
  },
  {
    name: 'bubbles of naive, interleaved and ZB-H1',
    run: async (page, check) => {
      check.equal(await bubbleAt(page, 'naive', 4, 8), '75.0 %', 'naive');
      check.equal(await bubbleAt(page, 'interleaved', 4, 8, { v: 2 }), '15.8 %', 'interleaved');
      check.equal(await bubbleAt(page, 'zb-h1', 4, 8), '11.1 %', 'zb-h1');
      for (const name of ['gpipe', 'zb-h2', 'zb-v', 'dualpipe-v', 'pipedream', 'pipedream-2bw'])
        check.that(/^\d+\.\d %$/.test(await bubbleAt(page, name, 4, 8)), `${name} has a bubble`);
    },
  },
  {
    name: 'two schedules stand on one axis; GPipe keeps M alive, 1F1B min(M, P - s)',
    run: async (page, check) => {
      await page.open(at({}));
      const notes = (name) => page.locator(`[data-schedule="${name}"] .notes span`).allTextContents();
      check.equal((await notes('gpipe')).join(' '), '8 8 8 8', 'alive in GPipe');
      check.equal((await notes('1f1b')).join(' '), '4 3 2 1', 'alive in 1F1B');
      await page.open(at({ m: 2 }));
      check.equal((await notes('1f1b')).join(' '), '2 2 2 1', 'alive in 1F1B with two micro-batches');
    },
  },
  {
    name: 'an operation that is selected names whom it waits for, and arrows join them',
    run: async (page, check) => {
      await page.open(at({ schedule: '1f1b', beside: 'none' }));
      const canvas = page.locator('[data-schedule="1f1b"] canvas');
      const pixels = () => canvas.evaluate((c) => c.toDataURL());
      const before = await pixels();
      await canvas.focus();
      await page.keyboard.press('ArrowDown');
      const said = await page.locator('[data-schedule="1f1b"] .said').textContent();
      check.contains(said, 'Rank 1: forward of micro-batch 0');
      check.contains(said, 'It needs F0 of stage 0, which rank 0 ends at 1');
      check.contains(said, 'F0 of stage 2 on rank 2 waits for it');
      check.that((await pixels()) !== before, 'the picture changed');
    },
  },
  {
    name: 'pointing at a cell says what it is, and draws whom it waits for; leaving forgets it',
    run: async (page, check) => {
      await page.open(at({ schedule: '1f1b', beside: 'none' }));
      const canvas = page.locator('[data-schedule="1f1b"] canvas');
      const pixels = () => canvas.evaluate((c) => c.toDataURL());
      const said = page.locator('[data-schedule="1f1b"] .said');
      const before = await pixels();
      const { width } = await canvas.boundingBox();
      await canvas.hover({ position: { x: (1.5 / 33) * width, y: 27 } }); // the second row, F0
      check.contains(await said.textContent(), 'Rank 1: forward of micro-batch 0 in stage 1, from 1 to 2');
      check.that((await pixels()) !== before, 'arrows are drawn');
      await page.mouse.move(0, 0);
      check.equal(await said.textContent(), '', 'after leaving');
      check.equal(await pixels(), before, 'the picture as before');
    },
  },
  {
    name: 'the memory curve peaks at what is alive; the table has every operation, the command says the same',
    run: async (page, check) => {
      await page.open(at({ schedule: 'gpipe', beside: '1f1b' }));
      const curve = (name) =>
        page.locator(`[data-schedule="${name}"]`).getByRole('img', { name: /alive on/ });
      check.contains(await curve('gpipe').getAttribute('aria-label'), 'rank 0 over time, at most 8');
      check.contains(await curve('1f1b').getAttribute('aria-label'), 'rank 0 over time, at most 4');
      const timeline = card(page, 'Schedules of a pipeline');
      check.contains(
        await timeline.textContent(),
        'tessera show schedule --schedule gpipe --ranks 4 --micro-batches 8',
      );
      await timeline.getByRole('button', { name: 'table' }).click();
      check.equal(await timeline.locator('tbody tr').count(), 64, 'operations in the table');
    },
  },
  {
    name: 'any number of micro-batches up to 512 may be typed',
    run: async (page, check) => {
      await page.open(at({ schedule: '1f1b', beside: 'none' }));
      const field = card(page, 'Schedules of a pipeline').getByLabel('micro-batches M, as a number');
      for (const [typed, taken, bubble] of [
        ['501', '501', '0.6 %'],
        ['900', '512', '0.6 %'],
        ['0', '1', '75.0 %'],
      ]) {
        await field.fill(typed);
        await field.press('Enter');
        await page.settle();
        check.equal(await field.inputValue(), taken, `${typed} typed`);
        check.equal(await bubbleOf(page, '1f1b'), bubble, `bubble at ${taken}`);
      }
    },
  },
  {
    name: 'weight versions of PipeDream stand at its rows',
    run: async (page, check) => {
      await page.open(at({ schedule: 'pipedream', beside: 'none' }));
      const notes = await page.locator('[data-schedule="pipedream"] .notes span').allTextContents();
      check.equal(notes.join(' '), '4 · 4 3 · 3 2 · 2 1 · 1', 'alive and versions');
      const timeline = page.locator('[data-schedule="pipedream"]');
      await timeline.locator('canvas').focus();
      for (let i = 0; i < 6; ++i) await page.keyboard.press('ArrowRight');
      const said = await timeline.locator('.said').textContent();
      check.contains(said, 'Rank 0: forward of micro-batch 4');
      check.contains(said, 'It reads version 1 of the weights; its gradient makes version 5.');
      await page.open(at({ schedule: 'pipedream-2bw', beside: 'none' }));
      const two = await page.locator('[data-schedule="pipedream-2bw"] .notes span').allTextContents();
      check.equal(two.map((note) => note.split(' · ')[1]).join(' '), '2 2 2 2', 'versions of 2BW');
    },
  },
  {
    name: 'uneven stages and messages make the bubble longer, F, B and W change ZB-H1',
    run: async (page, check) => {
      const uneven = await bubbleAt(page, '1f1b', 4, 16, { costs: '1 1 1 2' });
      check.that(parseFloat(uneven) > 40, `a stage of twice the length: ${uneven}`);
      const messages = await bubbleAt(page, '1f1b', 4, 8, { p2p: 0.5 });
      check.that(parseFloat(messages) > 27.3, `messages: ${messages}`);
      check.equal(await bubbleAt(page, 'zb-h1', 4, 8, { w: 2 }), '8.6 %', 'W = 2');
    },
  },
  {
    name: 'the fewest micro-batches below 10 % are 28 and 64',
    run: async (page, check) => {
      await page.open('/learn/pipelines');
      const said = await card(page, 'Bubble against micro-batches').locator('.least').textContent();
      check.contains(said, 'P = 4 needs M = 28');
      check.contains(said, 'P = 8 needs M = 64');
    },
  },
  {
    name: 'a boundary of 2 x 2,048 x 4,096 carries 32 MiB, one of 32 tokens 256 KiB',
    run: async (page, check) => {
      await page.open('/learn/pipelines');
      check.contains(await card(page, 'What a boundary carries').textContent(), '33,554,432 B');
      await page.open(at({ mb: 1, seq: 32 }));
      check.contains(await card(page, 'What a boundary carries').textContent(), '256.0 KiB');
    },
  },
  {
    name: 'the trace opens in Perfetto: slices, messages, counters',
    run: async (page, check) => {
      await page.open(at({ schedule: '1f1b', beside: 'none' }));
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Perfetto' }).click(),
      ]);
      const chunks = [];
      for await (const chunk of await download.createReadStream()) chunks.push(chunk);
      const { traceEvents } = JSON.parse(Buffer.concat(chunks).toString());
      check.equal(traceEvents.filter((event) => event.ph === 'X').length, 64, 'slices');
      check.equal(traceEvents.filter((event) => event.ph === 's').length, 48, 'messages');
    },
  },
  {
    name: 'a control changes the address, and reset takes it back',
    run: async (page, check) => {
      await page.open('/learn/pipelines');
      const timeline = card(page, 'Schedules of a pipeline');
      await timeline.getByLabel('ranks P, as a number').fill('8');
      await timeline.getByLabel('ranks P, as a number').press('Enter');
      await page.settle();
      check.contains(await page.address(), 'p=8', 'address');
      check.equal(await bubbleOf(page, '1f1b'), '46.7 %', '8 ranks, 8 micro-batches');
      await timeline.getByRole('button', { name: 'reset' }).click();
      await page.settle();
      check.equal(await bubbleOf(page, '1f1b'), '27.3 %', 'after reset');
    },
  },
  {
    name: 'a check knows the right answer',
    run: async (page, check) => {
      await page.open('/learn/pipelines');
      const quiz = card(page, 'Eight stages, a bubble below 10 %');
      await quiz.getByRole('textbox').fill('63');
      await quiz.getByRole('button', { name: 'Check' }).click();
      await quiz.getByText('too little').waitFor();
      await quiz.getByRole('textbox').fill('64');
      await quiz.getByRole('button', { name: 'Check' }).click();
      await quiz.getByText('Right').waitFor();
      check.contains(await quiz.textContent(), '= 64.');
    },
  },
  {
    name: '64 ranks and 512 micro-batches are answered and drawn',
    run: async (page, check) => {
      check.equal(await bubbleAt(page, '1f1b', 64, 512), '11.0 %', '63 / 575');
    },
  },
];
