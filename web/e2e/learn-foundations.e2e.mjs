// What all pictures of lessons have in common; lessons 1 to 4: the numbers that their widgets must show,
// read off the page.
import { kLessons } from './pages.mjs';

const card = (page, title) =>
  page.locator('section.card').filter({ has: page.getByRole('heading', { name: title }) });
const textOf = async (locator) => (await locator.innerText()).replaceAll('\u00a0', ' ').replace(/\s+/g, ' ');
const cellsOf = (widget) =>
  widget.locator('[data-rank]').evaluateAll((cells) =>
    cells.map((cell) => ({
      rank: Number(cell.dataset.rank),
      chunk: Number(cell.dataset.chunk),
      value: Number(cell.querySelector('span')?.textContent.replaceAll(',', '')),
      ranks: Number(cell.dataset.ranks),
      fresh: cell.classList.contains('new'),
    })),
  );
const rankOf = (cells, rank) => cells.filter((cell) => cell.rank === rank).map((cell) => cell.value);
const tableOf = async (widget) => {
  await widget.getByRole('button', { name: 'table' }).click();
  return widget
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.cells].map((c) => c.textContent)));
};

// Every picture of these lessons, and the control that moves it.
const kWidgets = {
  'one-device': ['Why one device is', 'How long a run takes', 'The scaling gap', 'Devices over the years'],
  collectives: ['All-reduce over a ring', 'How long it takes', 'Eight operations'],
  'data-parallel': ['One data-parallel step', 'Buckets behind the backward pass'],
  zero: ['ZeRO calculator', 'Gathers of FSDP', 'HSDP'],
  tensor: [
    'A product, split over ranks',
    'All-reduces of tensor parallelism',
    /^A block on/,
    'Activations of a micro-batch',
  ],
  pipelines: ['Schedules of a pipeline', 'Bubble against micro-batches', 'What a boundary carries'],
  context: ['Keys and values round a ring', 'One layer of Llama 3 405B', 'Activations of a micro-batch'],
  experts: ['Tokens, there and back'],
  mesh: [
    /^[\d,]+ ranks$/,
    'A cluster of 24,576 devices',
    'Links, and what a step sends',
    'What a device is made of',
    'The roof of a device',
    'Which split?',
  ],
  memory: ['Memory of a rank', 'Activations of a micro-batch', 'Llama 3 70B on 256 H100'],
  precision: [
    'A number in bytes',
    'Many small updates',
    'One update from K',
    'Computing again',
    'The same, planned',
  ],
  failures: [
    'A step with one rank lost',
    'Size of a checkpoint',
    'How often to save',
    'A month with failures',
  ],
  serving: [
    'What serving keeps',
    'The roof of a device',
    'A prompt through the stages',
    'Requests that take turns',
  ],
};
// Facts, answers, bits and what is played, not formulas; the schedule and the number have theirs beside their pictures.
const kWithoutFormula = [
  'Devices over the years',
  'What a device is made of',
  'Links, and what a step sends',
  'Which split?',
  'A number in bytes',
  'Many small updates',
  'A step with one rank lost',
  'Llama 3 70B on 256 H100',
  'The same, planned',
  'A month with failures',
  'A prompt through the stages',
  'Requests that take turns',
  /^A block on/,
].map(String);

const commonTests = Object.entries(kWidgets).map(([lesson, titles]) => ({
  name: `${lesson}: keys move each picture, its address brings it back, reset undoes it; formula, table, CSV`,
  run: async (page, check) => {
    const hash = async () => (await page.address()).split('#')[1];
    for (const title of titles) {
      await page.open(`/learn/${lesson}`);
      const widget = card(page, title);
      const first = await textOf(widget);
      if (!kWithoutFormula.includes(String(title)))
        check.that((await widget.locator('.formula .put math').count()) > 0, `${title}: no formula`);
      const choices = ['input[type=range], input[type=radio]', 'select', 'nav button'];
      for (const kind of choices) {
        const control = widget.locator(kind).first();
        if ((await control.count()) === 0) continue;
        await control.focus();
        await page.keyboard.press(kind === 'nav button' ? 'Enter' : 'ArrowRight');
        break;
      }
      await page.settle();
      if ((await hash()) === `/learn/${lesson}`) await page.keyboard.press('ArrowLeft');
      await page.settle();
      const [moved, address] = [await textOf(widget), await hash()];
      check.that(moved !== first, `${title}: a key changes nothing`);
      check.that(address.includes('?'), `${title}: the address keeps nothing`);
      await page.open(address);
      check.equal(await textOf(widget), moved, `${title}, opened from ${address}`);
      await widget.getByRole('button', { name: 'reset' }).click();
      await page.settle();
      check.equal(await hash(), `/learn/${lesson}`, `${title}: address after reset`);
      check.equal(await textOf(widget), first, `${title} after reset`);
      await widget.getByRole('button', { name: 'table' }).click();
      const rows = await widget
        .locator('.scroll tr')
        .evaluateAll((all) => all.map((row) => row.cells.length));
      const saved = page.waitForEvent('download');
      await widget.getByRole('button', { name: 'CSV' }).click();
      const stream = await (await saved).createReadStream();
      let csv = '';
      for await (const part of stream) csv += part;
      check.equal(csv.trimEnd().split('\n').length, rows.length, `${title}: lines of the CSV`);
    }
  },
}));

export const tests = [
  ...commonTests,
  {
    name: 'the scaling gap: both slopes, on a logarithmic axis, with a dated source',
    run: async (page, check) => {
      await page.open('/learn/one-device');
      const widget = card(page, 'The scaling gap');
      const text = await textOf(widget);
      check.contains(text, 'gap 25,000 ×');
      check.contains(text, '2018 to 2021');
      const rows = (await tableOf(widget)).map((row) => row.map(Number));
      check.near(rows[1][1] / rows[0][1], 10, 0.01, 'models in a year');
      check.near((rows[10][2] / rows[0][2]) ** (2.5 / 10), 2, 0.01, 'devices in 2.5 years');
      check.near(rows[5][1], 1e5, 0.01, 'models after five years');
      // Drawn on a logarithmic axis both are straight, and as steep as the numbers say.
      await widget.getByRole('button', { name: 'table' }).click();
      const paths = await widget
        .locator('svg path')
        .evaluateAll((all) => all.map((p) => p.getAttribute('d')));
      const [models, devices] = paths.map((d) =>
        d
          .slice(1)
          .split('L')
          .map((point) => point.split(' ').map(Number)),
      );
      const rise = (points, i) => points[i][1] - points[i + 1][1];
      for (let i = 0; i + 1 < models.length; ++i)
        check.near(rise(models, i), rise(models, 0), 0.01, `models rise from year ${i}`);
      const all = (points) => points[0][1] - points.at(-1)[1];
      check.near(all(models) / all(devices), 10 / (4 * Math.log10(2)), 0.01, 'how steep the lines are');
    },
  },
  {
    name: 'the scaling gap: the pointer reads a year, the address keeps it',
    run: async (page, check) => {
      await page.open('/learn/one-device');
      const plot = card(page, 'The scaling gap').locator('svg.plot');
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      await page.mouse.move(box.x + box.width - 14, box.y + 60);
      await page.settle();
      check.contains(await page.address(), 'year=10');
      check.contains(await textOf(card(page, 'The scaling gap')), 'models, year 10');
    },
  },
  {
    name: 'one device: 70B keep 1,120 GB, which 14 devices of 80 GB hold',
    run: async (page, check) => {
      await page.open('/learn/one-device');
      const widget = card(page, 'Why one device is not enough');
      const text = await textOf(widget);
      check.contains(text, '70B parameters keep 1,120 GB');
      check.contains(text, '14 devices hold them');
      check.contains(text, '60 GB too much');
      await page.open('/learn/one-device?n=14');
      check.contains(await textOf(widget), 'holds 80 GB of 80 GB.');
    },
  },
  {
    name: 'one device: 405B have 810 GB of weights, and the dashed line follows the device',
    run: async (page, check) => {
      await page.open('/learn/one-device?params=405&device=h200');
      const text = await textOf(card(page, 'Why one device is not enough'));
      check.contains(text, 'weights 810 GB');
      check.contains(text, 'h200: 141 GB');
    },
  },
  {
    name: 'how long a run takes: 3.645e25 FLOPs, 17.4 days at the peak, 43.4 at 40 %',
    run: async (page, check) => {
      await page.open('/learn/one-device');
      const text = await textOf(card(page, 'How long a run takes'));
      for (const part of ['3.645 · 10²⁵', '1,168 years', '17.36 days', '43.39 days'])
        check.contains(text, part);
      const prose = await textOf(page.locator('article'));
      for (const part of ['32.14 %', '40.44 %', '11,685', '6.48 TB', '4.86 TB'])
        check.contains(prose, part, 'prose');
    },
  },
  {
    name: 'the roof of a device: a product of 4096 lies right of the ridge, one row and ReLU left of it',
    run: async (page, check) => {
      const widget = card(page, 'The roof of a device');
      const at = async (what, i = 0) => Number(await widget.locator(what).nth(i).getAttribute('cx'));
      await page.open('/learn/mesh');
      check.contains(await textOf(widget), '989 TFLOP/s');
      check.contains(await textOf(widget), '295 FLOP/byte');
      check.that((await at('.you')) > (await at('.mark')), '4096 x 4096 x 4096 is right of the ridge');
      check.that((await at('.mark', 1)) < (await at('.mark')), 'ReLU is left of it');
      await page.open('/learn/mesh?m=1');
      check.that((await at('.you')) < (await at('.mark')), 'one row is left of the ridge');
    },
  },
  {
    name: 'devices over the years come from the catalogue, in order',
    run: async (page, check) => {
      await page.open('/learn/one-device');
      const widget = card(page, 'Devices over the years');
      check.contains(await textOf(widget), '2,250 TFLOP/s');
      const years = (await tableOf(widget)).map((row) => Number(row[1]));
      check.that(years.length > 10, 'more than ten devices');
      check.that(
        years.every((year, i) => i === 0 || year >= years[i - 1]),
        'years ascend',
      );
    },
  },
  {
    name: 'collectives: [1, 2] and [3, 4] gather to [1, 2, 3, 4] and sum to [4, 6]',
    run: async (page, check) => {
      for (const [op, expected] of [
        ['all_gather', '1,2,3,4'],
        ['all_reduce', '4,6'],
      ]) {
        await page.open(`/learn/collectives?values=small&op=${op}`);
        const rows = await tableOf(card(page, 'Eight operations'));
        for (const row of rows) check.equal(row[2].replaceAll(' ', ''), expected, `${op}, rank ${row[0]}`);
      }
    },
  },
  {
    name: 'collectives: all eight, from 2 to 16 ranks',
    run: async (page, check) => {
      const ops = [
        'broadcast',
        'scatter',
        'gather',
        'reduce',
        'all_gather',
        'reduce_scatter',
        'all_reduce',
        'all_to_all',
      ];
      for (const op of ops) {
        for (const ranks of [2, 16]) {
          await page.open(`/learn/collectives?op=${op}&op_ranks=${ranks}`);
          const widget = card(page, 'Eight operations');
          check.equal(await widget.locator('[role=alert]').count(), 0, `${op} over ${ranks}: errors`);
          check.equal((await tableOf(widget)).length, ranks, `${op} over ${ranks}: rows`);
        }
      }
    },
  },
  {
    name: 'collectives: all-reduce is reduce-scatter and all-gather, in steps and in bytes',
    run: async (page, check) => {
      await page.open('/learn/collectives?op_ranks=8');
      const widget = card(page, 'Eight operations');
      check.contains(await textOf(widget), '14 steps = 7 + 7');
      check.contains(await textOf(widget), '1.75 GB');
      await page.open('/learn/collectives?op_ranks=8&op=reduce_scatter');
      check.contains(await textOf(widget), '875 MB');
      await page.open('/learn/collectives?op_ranks=8&op=all_gather');
      check.contains(await textOf(widget), '875 MB', 'all-gather');
    },
  },
  {
    name: 'the ring: 2(N-1) steps, each rank sends and gets once in every step, all end equal',
    run: async (page, check) => {
      await page.open('/learn/collectives?step=0');
      const widget = card(page, 'All-reduce over a ring');
      const sums = [1111, 2222, 3333, 4444];
      check.contains(await textOf(widget), '0 of 6 steps');
      for (let step = 1; step <= 6; ++step) {
        await widget.getByRole('button', { name: 'Step ▸' }).click();
        await page.settle();
        const text = await textOf(widget);
        check.contains(
          text,
          step <= 3 ? `Reduce-scatter, step ${step} of 3` : `All-gather, step ${step - 3} of 3`,
        );
        check.contains(text, 'Every rank sends one chunk and gets one chunk.');
        const fresh = (await cellsOf(widget)).filter((cell) => cell.fresh);
        check.equal(
          new Set(fresh.map((cell) => cell.rank)).size,
          4,
          `ranks that get something in step ${step}`,
        );
        check.equal(fresh.length, 4, `chunks that arrive in step ${step}`);
        if (step <= 3)
          check.that(
            fresh.every((cell) => cell.ranks === step + 1),
            `sums of ${step + 1} ranks`,
          );
      }
      const cells = await cellsOf(widget);
      for (let rank = 0; rank < 4; ++rank) {
        check.equal(rankOf(cells, rank).join(), sums.join(), `end of rank ${rank}`);
      }
      check.contains(await textOf(widget), 'All ranks hold the same sum.');
    },
  },
  {
    name: 'the ring: back, keys, play; 16 ranks have 30 steps',
    run: async (page, check) => {
      await page.open('/learn/collectives');
      const widget = card(page, 'All-reduce over a ring');
      await widget.getByRole('button', { name: '◂ Back' }).click();
      check.contains(await textOf(widget), '1 of 6 steps');
      await page.keyboard.press('End');
      check.contains(await textOf(widget), '6 of 6 steps');
      await page.keyboard.press('Home');
      check.contains(await textOf(widget), '0 of 6 steps');
      // Played, it goes on by itself until the end, and stops at a key.
      await widget.getByLabel('speed').selectOption('4');
      await widget.getByRole('button', { name: 'Play' }).click();
      await widget.getByText('6 of 6 steps').waitFor();
      await widget.getByRole('button', { name: 'Play' }).waitFor();
      check.that(true, 'it stops at the end');
      await page.open('/learn/collectives?ranks=16');
      check.contains(await textOf(widget), 'of 30 steps');
    },
  },
  {
    name: 'the ring: through one rank and over a tree for contrast',
    run: async (page, check) => {
      await page.open('/learn/collectives?algorithm=naive&step=1');
      check.contains(await textOf(card(page, 'All-reduce through one rank')), 'Reduce, step 1');
      await page.open('/learn/collectives?algorithm=tree&ranks=8&step=99');
      const widget = card(page, 'All-reduce over a tree');
      check.contains(await textOf(widget), '6 of 6 steps');
      check.contains(await textOf(widget), 'All ranks hold the same sum.');
    },
  },
  {
    name: 'the ring: a lost rank leaves the others waiting',
    run: async (page, check) => {
      await page.open('/learn/collectives?lost=2&step=99');
      const text = await textOf(card(page, 'All-reduce over a ring'));
      check.contains(text, 'Rank 2 is gone');
      check.contains(text, 'waits for 2');
      check.that(!text.includes('All ranks hold the same sum.'), 'no end is claimed');
    },
  },
  {
    name: 'time of an all-reduce: 5.6 s, 10.85 s, never more than 11.2 s',
    run: async (page, check) => {
      const widget = card(page, 'How long it takes');
      for (const [query, expected] of [
        ['p=2', '2 ranks: 5.6 s'],
        ['p=32', '32 ranks: 10.85 s'],
        ['p=8&array=2GB', '8 ranks: 140 ms'],
        ['p=8&array=25MiB&gbs=900', '8 ranks: 50.97 µs'],
        ['p=8&array=25MiB&gbs=50', '8 ranks: 917.5 µs'],
      ]) {
        await page.open(`/learn/collectives?${query}`);
        check.contains(await textOf(widget), expected, query);
      }
      await page.open('/learn/collectives?p=32');
      check.contains(await textOf(widget), '2X/B = 11.2 s');
      check.equal(await widget.locator('svg .lim').count(), 1, 'the asymptote is drawn');
    },
  },
  {
    name: 'time of an all-reduce: with latency a tree wins for small arrays',
    run: async (page, check) => {
      await page.open('/learn/collectives?latency=true&array=1MB&p=64');
      const text = await textOf(card(page, 'How long it takes'));
      check.contains(text, 'ring 1.339 ms');
      check.contains(text, 'tree 200 µs');
      check.contains(text, 'faster below 912 MB');
    },
  },
  {
    name: 'a data-parallel step: mean 0.1, change -0.0001, 16 of 64 examples, equal weights',
    run: async (page, check) => {
      await page.open('/learn/data-parallel?state=6');
      const widget = card(page, 'One data-parallel step');
      const cells = (state) => widget.locator(`[data-state="${state}"]`).allInnerTexts();
      check.equal((await cells('Split')).join(), Array(4).fill('16 examples').join(), 'split');
      check.equal((await cells('Backward')).join(), '0.2,0.1,−0.05,0.15', 'gradients');
      check.equal((await cells('All-reduce')).join(), '0.1,0.1,0.1,0.1', 'mean');
      check.equal(new Set(await cells('Update')).size, 1, 'weights are equal');
      check.equal((await cells('Update'))[0], 'w − 0.0001', 'update');
    },
  },
  {
    name: 'a data-parallel step: six states, accumulation, own gradients, and a refusal that says why',
    run: async (page, check) => {
      await page.open('/learn/data-parallel?state=0&micro=4');
      const widget = card(page, 'One data-parallel step');
      for (const name of ['Replicate', 'Split', 'Forward', 'Backward', 'All-reduce', 'Update']) {
        await widget.getByRole('button', { name: 'Step ▸' }).click();
        check.contains(await textOf(widget.locator('header')), `${name}.`);
      }
      check.contains(await textOf(widget), '4 × 4');
      const field = widget.getByLabel('gradients');
      await field.fill('1,3');
      await field.blur();
      await page.settle();
      check.equal(await widget.locator('[data-state="All-reduce"]').count(), 2, 'ranks');
      check.contains(await textOf(widget.locator('[data-state="All-reduce"]').first()), '2');
      await field.fill('one');
      await field.blur();
      await page.settle();
      check.contains(await textOf(widget.locator('[role=alert]')), 'gradients');
    },
  },
  {
    name: 'buckets: messages are hidden behind the backward pass, or exposed',
    run: async (page, check) => {
      const widget = card(page, 'Buckets behind the backward pass');
      const figure = async (name) => {
        const text = await widget.locator(`[data-figure=${name}]`).innerText();
        return parseFloat(text) * (text.endsWith('ms') ? 1e-3 : text.endsWith('µs') ? 1e-6 : 1);
      };
      await page.open('/learn/data-parallel');
      const [step, sent, hidden, exposed] = [
        await figure('step'),
        await figure('messages'),
        await figure('hidden'),
        await figure('exposed'),
      ];
      check.that(hidden > exposed, 'most of it is hidden');
      check.near(hidden + exposed, sent, 0.01, 'hidden and exposed are all of it');
      await page.open('/learn/data-parallel?overlap=false');
      check.near(await figure('exposed'), await figure('messages'), 0.01, 'without overlap all is exposed');
      check.that((await figure('step')) > step, 'and the step is longer');
    },
  },
  {
    name: 'ZeRO: 7B on 8 ranks leave 112, 38.5, 26.25 and 14 GB; table; traffic; largest model',
    run: async (page, check) => {
      await page.open('/learn/zero');
      const widget = card(page, 'ZeRO calculator');
      const totals = await widget.locator('.top-label').allInnerTexts();
      check.equal(totals.join(), '112,38.5,26.25,14', 'stages');
      const text = await textOf(widget);
      check.contains(text, '2 P sent 2 P sent 2 P sent 3 P sent');
      check.contains(text, 'The largest model that fits has 40B parameters');
      const rows = await widget
        .locator('tbody tr')
        .evaluateAll((all) => all.map((r) => [...r.cells].map((c) => c.textContent.trim()).join(' ')));
      check.equal(
        rows.join('; '),
        '1 112 112 112 112; 2 112 70 63 56; 4 112 49 38.5 28; 8 112 38.5 26.25 14; 16 112 33.25 20.125 7',
        'table',
      );
    },
  },
  {
    name: 'ZeRO: 13B on 16, 12B on 8, 10B on 8, 24 GB on one device',
    run: async (page, check) => {
      const widget = card(page, 'ZeRO calculator');
      const totals = () => widget.locator('.top-label').allInnerTexts();
      await page.open('/learn/zero?params=13&n=16');
      check.equal((await totals())[3], '13', '13B, 16 ranks, stage 3');
      await page.open('/learn/zero?params=12');
      check.equal((await totals()).join().replace(/,.*,/, ' '), '192 24', '12B, stages 0 and 3');
      await page.open('/learn/zero?params=10');
      check.equal((await totals()).join(), '160,55,37.5,20', '10B');
      await page.open('/learn/zero?device=rtx-4090&n=1&stage=0');
      check.contains(await textOf(widget), 'The largest model that fits has 1.5B parameters');
    },
  },
  {
    name: 'HSDP: groups, what is sent inside and between them',
    run: async (page, check) => {
      await page.open('/learn/zero?h_params=405&h_ranks=24576&h_shard=8');
      const text = await textOf(card(page, 'HSDP'));
      for (const part of ['3,072 groups of 8', '810 GB', '2.126 TB', '202.4 GB']) check.contains(text, part);
    },
  },
  {
    name: 'FSDP: prefetched gathers are hidden in part, late ones cost time',
    run: async (page, check) => {
      const widget = card(page, 'Gathers of FSDP');
      const exposed = async () => parseFloat(await widget.locator('[data-figure=exposed]').innerText());
      await page.open('/learn/zero');
      const ahead = await exposed();
      check.contains(await textOf(widget), 'Without prefetch the step takes');
      await page.open('/learn/zero?prefetch=0');
      const late = await exposed();
      check.that(late > ahead, 'late gathers are exposed');
      await page.open('/learn/zero?again=false');
      const kept = await textOf(widget);
      const memory = (text) => parseFloat(text.match(/A rank needs ([\d.]+) GiB/)[1]);
      await page.open('/learn/zero');
      const one = memory(await textOf(widget));
      check.that(memory(kept) > one, 'kept weights take memory');
      await page.open('/learn/zero?unit_blocks=4');
      const four = memory(await textOf(widget));
      check.that(four > one, `units of four blocks hold more: ${four} GiB instead of ${one}`);
      check.equal(await exposed(), ahead, 'exposed with prefetch, units of four blocks');
      await page.open('/learn/zero?prefetch=0&unit_blocks=4');
      check.that((await exposed()) < late, 'without prefetch larger units hide more');
    },
  },
  {
    name: 'checks: the core says what is right, hints show the shell and the C++',
    run: async (page, check) => {
      await page.open('/learn/collectives');
      const quiz = card(page, 'Check: 2 GB over 8 ranks');
      await quiz.getByRole('textbox').fill('0.2');
      await quiz.getByRole('button', { name: 'Check' }).click();
      await quiz.getByText('Not yet: 0.2 is too much.').waitFor();
      await quiz.getByRole('textbox').fill('0.14');
      await quiz.getByRole('button', { name: 'Check' }).click();
      await quiz.getByText('Right: 2 · 7/8 · 2 GB / 25 GB/s = 0.14 s.').waitFor();
      await quiz.getByRole('button', { name: 'Hint' }).click();
      const text = await textOf(quiz);
      check.contains(text, 'tessera explain ring --bytes 2GB --ranks 8 --bandwidth 25GB/s');
      check.contains(text, 'tessera::explain("ring"');
    },
  },
  {
    name: 'exercises of the first four lessons have the answers that the core gives',
    run: async (page, check) => {
      const answers = {
        'one-device': [
          ['Check: states of 13B', ['208']],
          ['Check: the largest model on 24', ['1.5']],
          ['Exercise: a run', ['33.8']],
        ],
        collectives: [
          ['Exercise: 64 MiB', ['112', '2.35']],
          ['Check: where the tree', ['44']],
        ],
        'data-parallel': [
          ['Check: examples', ['32']],
          ['Exercise: a mean', ['0.15', '-0.0015']],
          ['Check: micro', ['8']],
        ],
        zero: [
          ['Check: 13B', ['13']],
          ['Exercise: 12B', ['192', '24']],
          ['Check: the largest model in', ['36.06']],
        ],
      };
      for (const [lesson, cards] of Object.entries(answers)) {
        await page.open(`/learn/${lesson}`);
        for (const [title, values] of cards) {
          const forms = card(page, title).locator('form');
          for (const [i, value] of values.entries()) {
            await forms.nth(i).getByRole('textbox').fill(value);
            await forms.nth(i).getByRole('button', { name: 'Check' }).click();
            await forms
              .nth(i)
              .getByText(/^(Right|Not)/)
              .waitFor();
            check.contains(
              await textOf(forms.nth(i).getByRole('status')),
              'Right:',
              `${title} with ${value}`,
            );
          }
        }
      }
    },
  },
  {
    name: 'every exercise of every lesson: a wrong answer is told which way, a hint has the shell and the C++, nobody is held up',
    run: async (page, check) => {
      for (const lesson of kLessons) {
        await page.open(`/learn/${lesson}`);
        const forms = page.locator('main form');
        const count = await forms.count();
        check.that(count >= 2, `${lesson}: ${count} exercises`);
        for (let i = 0; i < count; ++i) {
          const form = forms.nth(i);
          const said = form.getByRole('status');
          for (const [typed, expected] of [
            ['many', /is not a number/],
            ['-1', /^Not yet: −?-?1 is too little\.|^Not yet/],
            ['1e30', /^Not yet: .* is too much\./],
          ]) {
            await form.getByRole('textbox').fill(typed);
            await form.getByRole('button', { name: 'Check' }).click();
            await said
              .getByText(/./)
              .first()
              .waitFor({ state: 'attached' })
              .catch(() => {});
            await page
              .waitForFunction(
                ([at, pattern]) =>
                  new RegExp(pattern).test(
                    document
                      .querySelectorAll('main form')
                      [at].querySelector('[role=status]')
                      .textContent.trim(),
                  ),
                [i, expected.source],
                { timeout: 20_000 },
              )
              .catch(() => {});
            check.that(
              expected.test((await textOf(said)).trim()),
              `${lesson}, exercise ${i + 1}: ${typed}: ${await textOf(said)}`,
            );
          }
          await form.getByRole('button', { name: 'Hint' }).click();
          const text = await textOf(form);
          check.that(/In a shell tessera \w+/.test(text), `${lesson}, exercise ${i + 1}: command: ${text}`);
          check.that(/In C\+\+ tessera::\w+\(/.test(text), `${lesson}, exercise ${i + 1}: C++: ${text}`);
        }
        check.that((await page.locator('.pager a').count()) > 0, `${lesson}: whoever is wrong may go on`);
      }
    },
  },
  {
    name: 'the state of a widget is in the address, and reset takes it out',
    run: async (page, check) => {
      await page.open('/learn/zero?params=13&n=16&stage=2');
      const widget = card(page, 'ZeRO calculator');
      check.contains(await textOf(widget), 'ZeRO-2: a rank holds');
      await widget.getByRole('button', { name: 'reset' }).click();
      await page.settle();
      check.that(!(await page.address()).includes('params'), 'the address is clean');
      check.contains(await textOf(widget), 'ZeRO-3: a rank holds 14 GB');
    },
  },
];
