// The place Look inside: a run's Programs, memory, placements, schedule, collectives and all its ranks.
// Numbers are read off the page; those of the demo stand in docs/program.md and docs/memory.md too.
import { readFileSync } from 'node:fs';

const card = (page, title) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title }) });
const param = async (page, name) => new URLSearchParams((await page.address()).split('?')[1] ?? '').get(name);
const kPipeline = 'model=gpt2&cluster=h100-8&tp=2&pp=4&zero=1&seq_len=1024&global_batch=16';
const milliseconds = (text) => Number(/([\d.]+) ms/.exec(text)?.[1]);

export const tests = [
  {
    name: 'map: the Program of any rank as text and picture, its buffers over time in the arena',
    run: async (page, check) => {
      await page.open('/inside/map');
      const streams = card(page, 'Streams');
      check.contains(await streams.innerText(), 'rank 0, 211 instructions, 1.9 ms');
      check.contains(await streams.innerText(), 'compute');
      const arena = card(page, /Arena activations, 19,641,344 B/);
      check.contains(await arena.locator('canvas').getAttribute('aria-label'), '172 buffers');
      check.contains(
        await card(page, 'Memory of this rank').innerText(),
        '13,701,120',
        'activations, as the planner has them',
      );
      const program = card(page, 'Program');
      check.that((await program.locator('.on').count()) > 0, 'lines at the cursor are marked');
      await program.getByRole('button', { name: 'all 211 lines' }).click();
      check.equal(await program.locator('.prog > div').count(), 211, 'lines');
      await page.getByRole('spinbutton', { name: 'Rank, as a number' }).fill('3');
      await page.keyboard.press('Enter');
      await page.settle();
      check.contains(await streams.innerText(), 'rank 3, 211 instructions');
      check.equal(await param(page, 'rank'), '3', 'the rank in the address');
    },
  },
  {
    name: 'map: keys go through buffers and to the fullest moment; the table has them all',
    run: async (page, check) => {
      await page.open('/inside/map?at=0.0001');
      const cursor = page.getByRole('heading', { name: /^At the cursor/ });
      check.contains(await cursor.innerText(), '100 µs');
      const arena = card(page, /^Arena activations/);
      await arena.locator('canvas').focus();
      await page.keyboard.press('m');
      check.contains(await cursor.innerText(), '729 µs', 'm: the fullest moment');
      const before = await page.locator('.inside > .stack h2').nth(3).innerText();
      await page.keyboard.press('n');
      check.that((await param(page, 'buffer')) !== null, 'n: the next buffer');
      await page.keyboard.press('t');
      check.equal(await arena.locator('tbody tr').count(), 172, `t: rows of the table (${before})`);
    },
  },
  {
    name: 'placements: every tensor, which part a rank holds, and what one block sends',
    run: async (page, check) => {
      await page.open('/inside/placements');
      const holds = card(page, 'Who holds what');
      check.equal(await holds.locator('.tensors li').count(), 26, 'tensors');
      const embed = holds.getByRole('button', { name: /^embed: rank 0 holds 50 percent/ });
      check.equal(await embed.count(), 1, 'half of the embedding');
      await embed.click();
      check.equal(await param(page, 'rank'), '1', 'the next rank is selected');
      const block = card(page, 'One block, forward');
      check.equal(await block.locator('li.cast', { hasText: 'tp' }).count(), 4, 'casts over tp');
      check.contains(await block.innerText(), 'reduce-scatter');
      await holds.getByText('weights', { exact: true }).click();
      check.equal(await holds.locator('.tensors li').count(), 9, 'weights');
    },
  },
  {
    name: 'schedule: a row for each stage; a row that is selected is the rank of the other tabs',
    run: async (page, check) => {
      await page.open(`/inside/schedule?${kPipeline}`);
      const passes = card(page, 'Passes of every stage');
      for (const name of ['pp 0', 'pp 1', 'pp 2', 'pp 3']) check.contains(await passes.innerText(), name);
      const canvas = passes.locator('canvas');
      const box = await canvas.boundingBox();
      await canvas.click({ position: { x: box.width / 2, y: (box.height * 5) / 8 } });
      check.equal(await param(page, 'rank'), '4', 'first rank of stage 2');
      check.equal(await passes.locator('.names .on').innerText(), 'pp 2', 'the row is marked');
      await page.getByRole('link', { name: 'All ranks' }).click();
      await page.settle();
      check.contains(await page.locator('main').innerText(), 'Streams of rank 4');
      check.contains(await card(page, 'Every rank').innerText(), 'rank 4 of 8');
      await page.getByRole('link', { name: 'Memory map' }).click();
      await page.settle();
      check.contains(await card(page, 'Streams').innerText(), 'rank 4, ');
    },
  },
  {
    name: 'schedule: a run without a pipeline says so, and offers one',
    run: async (page, check) => {
      await page.open('/inside/schedule');
      await page.getByRole('button', { name: 'The same model in four stages' }).click();
      await page.settle();
      check.contains(await card(page, 'Passes of every stage').innerText(), 'pp 3');
      check.equal(
        await page.getByLabel('Run', { exact: true }).locator('option:checked').innerText(),
        'the demo as a pipeline: pp 4',
        'the run',
      );
    },
  },
  {
    name: 'collectives: step by step with values, which end as the sum',
    run: async (page, check) => {
      await page.open('/inside/collectives');
      const ring = page.locator('section.card').first();
      for (let i = 0; i < 8; ++i) {
        const step = ring.getByRole('button', { name: /^Step/ });
        if (await step.isEnabled()) await step.click();
      }
      check.contains(await ring.innerText(), '6 of 6 steps');
      for (const sum of ['1,111', '2,222', '3,333', '4,444'])
        check.equal(await ring.getByText(sum, { exact: true }).count(), 4, `${sum} on every rank`);
    },
  },
  {
    name: 'all ranks: a slow rank makes the step longer, a lost one holds the others up',
    run: async (page, check) => {
      await page.open('/inside/ranks?rank=2');
      const step = card(page, 'One step, simulated');
      check.contains(await step.innerText(), '1.9 ms; 1 kind of rank stands for 4');
      await step.getByLabel('it is slow').check();
      await page.settle();
      const says = await step.locator('.says').innerText();
      check.contains(says, 'Rank 2, 1.5 times as slow, makes the step');
      check.that(milliseconds(says) > 1.9, `longer: ${says}`);
      check.contains(says, '(+', 'by how much');
      await step.getByLabel('it is slow').uncheck();
      await step.getByLabel('it is lost').check();
      await page.settle();
      const gone = await step.locator('.says').innerText();
      check.contains(gone, 'Rank 2 is gone after 956 µs');
      check.contains(gone, 'Rank 0 waits for rank 2 in reduce_scatter over dp');
      check.contains(await page.address(), 'lost=true');
    },
  },
  {
    name: 'all ranks: without contention the step is shorter',
    run: async (page, check) => {
      await page.open('/inside/ranks');
      const step = card(page, 'One step, simulated');
      const idle = async () => {
        await step.getByRole('button', { name: 'table' }).click();
        const text = await step.locator('tbody').innerText();
        await step.getByRole('button', { name: 'table' }).click();
        return text;
      };
      const length = async () =>
        Number(await page.evaluate(() => document.querySelector('[data-step-us]').dataset.stepUs));
      const before = await length();
      await idle();
      await step.getByLabel('kernels slow down beside communication').uncheck();
      await page.settle();
      check.that((await length()) < before, `${await length()} µs, with contention ${before} µs`);
      check.equal(await param(page, 'contention'), 'false', 'in the address');
    },
  },
  {
    name: 'all ranks: saves a trace that Perfetto opens',
    run: async (page, check) => {
      await page.open('/inside/ranks');
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Perfetto' }).click(),
      ]);
      const trace = JSON.parse(readFileSync(await download.path(), 'utf8'));
      check.equal(trace.displayTimeUnit, 'ms', 'unit');
      check.equal(trace.distributedInfo.world_size, 4, 'world');
      check.that(trace.traceEvents.filter((event) => event.ph === 'X').length > 200, 'slices');
    },
  },
  {
    name: '24,576 ranks: drawn at once by stages, tiles select, classes stand for all',
    run: async (page, check) => {
      await page.open('/inside/ranks');
      await page
        .getByLabel('Run', { exact: true })
        .selectOption({ label: '405B on 24,576 H100: tp 8, pp 16, dp 192' });
      const step = card(page, 'One step, simulated');
      await step.getByText('16 kinds of ranks stand for 24,576').waitFor({ timeout: 15_000 });
      const tiles = page.locator('canvas[data-drawn-ms]');
      await tiles.waitFor();
      await page.locator('canvas[aria-valuemax="24575"]').waitFor();
      await tiles.focus();
      await page.keyboard.press('End');
      check.equal(await param(page, 'rank'), '24575', 'the last rank');
      check.equal(await step.locator('.names .on').innerText(), 'pp 15', 'its row');
      await page.getByText('layers 119 to 125').waitFor();
      check.contains(await card(page, 'Every rank').innerText(), 'node 3,071');
      check.that(Number(await tiles.getAttribute('data-drawn-ms')) < 1000, 'time to draw');
    },
  },
  {
    name: 'a stage that is selected in Plan is the rank of Look inside, and back again',
    run: async (page, check) => {
      await page.open(`/plan?${kPipeline}`);
      const memory = card(page, /Memory of a rank/);
      await memory.locator('.bar').nth(2).click();
      const step = card(page, /One step, simulated/);
      check.equal(await step.locator('.names .on').innerText(), 'pp 2', 'the row of the timeline');
      const canvas = step.locator('canvas');
      const box = await canvas.boundingBox();
      await canvas.click({ position: { x: box.width / 2, y: (box.height * 7) / 8 } });
      check.equal(await memory.locator('.bar[aria-pressed=true]').count(), 1, 'one bar is marked');
      check.equal(
        await memory.locator('.bar').nth(3).getAttribute('aria-pressed'),
        'true',
        'that of stage 3',
      );
      await page.locator('nav[aria-label=Places]').getByText('Look inside').click();
      await page.settle();
      check.equal(await param(page, 'rank'), '6', 'the first rank of stage 3');
      check.contains(await card(page, 'Streams').innerText(), 'rank 6, ');
      await page.locator('nav[aria-label=Places]').getByText('Plan').click();
      await page.settle();
      check.contains(await page.locator('.verdict h1').innerText(), 'gpt2 on 8 H100');
    },
  },
  {
    name: 'takes a run file of the reader',
    run: async (page, check) => {
      await page.open('/inside/map');
      const demo = readFileSync(new URL('../../examples/demo.toml', import.meta.url), 'utf8');
      await page.locator('.which input[type=file]').setInputFiles({
        name: 'mine.toml',
        mimeType: 'text/plain',
        buffer: Buffer.from(demo.replace('layers = 4', 'layers = 2')),
      });
      await page.waitForFunction(() => location.hash.includes('mine.toml'));
      await page.settle();
      check.contains(await page.locator('main').innerText(), 'mine.toml on h100');
      check.that(!(await card(page, 'Streams').innerText()).includes('211 instructions'), 'another Program');
    },
  },
  {
    name: 'says what is wrong with a run, and what to do',
    run: async (page, check) => {
      await page.open('/inside/map?model=llama-3-8b&cluster=h100-8&tp=3&pp=1');
      check.that((await page.locator('main [role=alert]').first().innerText()).length > 20, 'a message');
    },
  },
  {
    name: 'a large Program says what it does, leaves the page free and can be cancelled',
    fresh: true,
    run: async (page, check) => {
      await page.open('/inside/collectives');
      const large =
        'model=llama-3-405b&cluster=h100-24576&tp=8&pp=16&zero=1&seq_len=8192&global_batch=3072&sequence_parallel=true';
      await page.evaluate((hash) => (location.hash = hash), `/inside/map?${large}`);
      const streams = card(page, 'Streams');
      await streams.getByText(/compiling the Program/).waitFor();
      // Meanwhile the frame answers.
      const began = Date.now();
      await page.keyboard.press('?');
      await page.getByRole('region', { name: 'Keyboard map' }).waitFor();
      check.that(Date.now() - began < 2000, `the map of keys took ${Date.now() - began} ms`);
      await page.keyboard.press('Escape');
      await streams.getByRole('button', { name: 'cancel' }).click();
      await page.settle();
      check.contains(await streams.innerText(), 'Cancelled. It is asked again');
      await page.evaluate(() => (location.hash = '/inside/map'));
      await page.settle();
      check.contains(await streams.innerText(), '211 instructions');
    },
  },
];
