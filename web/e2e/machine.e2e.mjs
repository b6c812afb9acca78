// Lessons 9 to 13: the mesh and the machine, memory, precision, failures, serving.
const card = (page, title) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title }) });
const status = (page, title) => card(page, title).locator('[role=status]').last();

const kLessons = ['mesh', 'memory', 'precision', 'failures', 'serving'];

export const tests = [
  {
    name: 'lessons 9 to 13 end with exercises, what is traded and sources; every picture has a table',
    run: async (page, check) => {
      for (const lesson of kLessons) {
        await page.open(`/learn/${lesson}`);
        const ids = await page.locator('article h2[id]').evaluateAll((all) => all.map((h) => h.id));
        check.equal(
          ids.filter((id) => /^(exercises|trade|sources)$/.test(id)).join(' '),
          'exercises trade sources',
          lesson,
        );
        check.that((await page.getByRole('button', { name: 'Hint' }).count()) >= 2, `${lesson}: exercises`);
        const bare = await page
          .locator('section.card.wide', { hasNot: page.getByRole('button', { name: 'CSV' }) })
          .count();
        check.equal(bare, 0, `${lesson}: pictures without a table`);
      }
    },
  },
  {
    name: 'lessons 9 to 13: what an address says is what the page shows, and reset forgets it',
    run: async (page, check) => {
      for (const [lesson, title, params, label, shown, first] of [
        ['mesh', /ranks$/, 'tp=4', 'tp, as a number', '4', '8'],
        ['memory', 'Memory of a rank', 'billions=70', 'parameters, as a number', '70', '10'],
        ['memory', 'Activations of', 'act_seq=8192', 'tokens, as a number', '8192', '4096'],
        ['precision', 'A number in bytes', 'value=3', 'value, as a number', '3', '0.1'],
        ['precision', 'One update', 'acc_steps=32', 'steps K, as a number', '32', '8'],
        ['precision', 'Computing again', 're_tp=4', 'tp, as a number', '4', '8'],
        ['failures', 'Size of a checkpoint', 'ck_billions=7', 'parameters, as a number', '7', '405'],
        ['serving', 'What serving keeps', 'kv_context=4096', 'longest text, as a number', '4096', '8192'],
      ]) {
        await page.open(`/learn/${lesson}?${params}`);
        const field = card(page, title).first().getByLabel(label);
        check.equal((await field.inputValue()).replaceAll(',', ''), shown, `${lesson}: ${params}`);
        await card(page, title).first().getByRole('button', { name: 'reset' }).click();
        await page.settle();
        check.equal((await field.inputValue()).replaceAll(',', ''), first, `${lesson}: reset`);
        check.that(!(await page.address()).includes(params), `${lesson}: ${params} is forgotten`);
      }
    },
  },
  {
    name: 'memory by component: 10B on 8 ranks under ZeRO 0 to 3, and 12 bytes without a master copy',
    run: async (page, check) => {
      await page.open('/learn/memory');
      const states = card(page, 'Memory of a rank');
      const labels = await states.locator('.bar .top-label').allTextContents();
      check.equal(labels.join(' '), '160 55 37.5 20', 'GB by stage');
      check.contains(await states.textContent(), '16 bytes of a parameter');
      check.equal(
        (await states.locator('.key li').allTextContents())
          .map((text) => text.replace(/[\d.,]+ GB/, '').trim())
          .join(', '),
        'weights, gradients, f32 copy, moment m, moment v',
        'parts',
      );
      check.equal(await states.locator('.bar.over').count(), 1, 'bars over the limit are marked');
      await states.getByLabel('f32 copy of the weights').uncheck();
      await states.getByLabel('parameters, as a number').fill('7');
      await states.getByLabel('parameters, as a number').press('Enter');
      await page.settle();
      check.equal(
        await states.locator('.bar .top-label').first().textContent(),
        '84',
        'GB of 7B in 12 bytes',
      );
      check.contains(await page.address(), 'master=false', 'address');
      await states.getByText('8-bit', { exact: true }).click();
      await page.settle();
      check.equal(
        await states.locator('.bar .top-label').first().textContent(),
        '42',
        'GB of 7B with moments of 8 bits',
      );
      await states.getByRole('group', { name: 'gradients' }).getByText('f32', { exact: true }).click();
      await page.settle();
      check.equal(
        await states.locator('.bar .top-label').first().textContent(),
        '56',
        'GB of 7B with gradients in f32',
      );
      await states.getByRole('group', { name: 'gradients' }).getByText('bf16', { exact: true }).click();
      await states.getByText('SGD', { exact: true }).click();
      await page.settle();
      check.equal(await states.locator('.bar .top-label').first().textContent(), '28', 'GB of 7B with SGD');
    },
  },
  {
    name: 'memory by component: a model adds its activations; attention, sequence, context and recomputation change them',
    run: async (page, check) => {
      await page.open('/learn/memory?mem_model=llama-2-70b&mem_tp=8');
      const card_ = card(page, 'Memory of a rank');
      const kept = async () =>
        Number(/activations\s+([\d.]+) GB/.exec(await card_.locator('.key').first().textContent())[1]);
      const flip = async (label) => {
        await card_.getByRole('checkbox', { name: label }).click();
        await page.settle();
      };
      check.equal(await kept(), 34.9, 'GB with fused attention');
      check.contains(await status(page, 'Memory of a rank').textContent(), 'ZeRO-2 fits');
      await flip('fused attention');
      check.equal(await kept(), 88.58, 'GB with all scores');
      await card_.getByText('selective', { exact: true }).click();
      await page.settle();
      check.equal(await kept(), 34.9, 'GB with the core of attention computed again');
      await flip('sequence parallel');
      check.equal(await kept(), 11.41, 'GB with the sequence split');
      await card_.getByText('full', { exact: true }).click();
      await page.settle();
      check.equal(await kept(), 5.369, 'GB of inputs alone');
      for (const part of ['mem_fused=false', 'mem_recompute=full', 'mem_sp=true'])
        check.contains(await page.address(), part, 'address');
      await page.open('/learn/memory?mem_model=llama-2-70b&mem_tp=8&mem_cp=2');
      check.equal(await kept(), 17.45, 'GB with half of the context');
    },
  },
  {
    name: 'memory by component: says what is over, and which number of ranks holds it',
    run: async (page, check) => {
      await page.open('/learn/memory?billions=70&zero_ranks=8');
      check.contains(
        await status(page, 'Memory of a rank').textContent(),
        'Does not fit: ZeRO-3 leaves 140 GB of 80 GB',
      );
      check.contains(await status(page, 'Memory of a rank').textContent(), '14 ranks hold these states');
    },
  },
  {
    name: 'memory by stage: the heaviest is named, a change that helps is offered, recomputation makes it fit',
    run: async (page, check) => {
      await page.open('/learn/memory');
      const stages = card(page, 'Llama 3 70B on 256 H100, by stage');
      check.contains(
        await status(page, 'Llama 3 70B on 256 H100').textContent(),
        'Does not fit. Stage 0 needs',
      );
      check.contains(await stages.textContent(), 'parallel.sequence_parallel=true', 'a change that helps');
      check.contains(await stages.locator('.key').first().textContent(), 'reserve');
      check.contains(await stages.textContent(), '74.5 GiB of a device', 'the limit');
      await stages.getByLabel('sequence parallel').check();
      await page.settle();
      check.contains(
        await status(page, 'Llama 3 70B on 256 H100').textContent(),
        'Fits. Stage 0 is the heaviest',
      );
    },
  },
  {
    name: 'activations: fused attention and context parallelism keep less',
    run: async (page, check) => {
      await page.open('/learn/memory?act_tp=1');
      const before = await status(page, 'Activations of a micro-batch').textContent();
      await page.open('/learn/memory?act_tp=1&act_cp=2');
      const after = await status(page, 'Activations of a micro-batch').textContent();
      const gb = (text) => Number(/keeps ([\d.,]+) GB/.exec(text)[1].replaceAll(',', ''));
      check.near(gb(after), gb(before) / 2, 0.01, 'half with cp 2');
    },
  },
  {
    name: 'roofline: the ridge of an H100, a large product right of it, one row and ReLU left of it',
    run: async (page, check) => {
      await page.open('/learn/mesh');
      const roof = card(page, 'The roof of a device');
      check.contains(await roof.textContent(), 'Ridge 295 FLOP/byte');
      check.contains(await roof.textContent(), 'The product is bound by arithmetic.');
      check.contains(await roof.textContent(), 'ReLU 0.25 FLOP/byte');
      check.contains(await roof.textContent(), '2,048 FLOP/byte');
      await roof.getByLabel('rows m, as a number').fill('1');
      await roof.getByLabel('rows m, as a number').press('Enter');
      await page.settle();
      check.contains(await roof.textContent(), 'The product is bound by memory.');
      check.contains(await page.address(), 'm=1', 'address');
    },
  },
  {
    name: 'grid: 64, 1,120 and 24,576 ranks; a rank says who it is; keys and taps select',
    run: async (page, check) => {
      await page.open('/learn/mesh');
      const grid = page.locator('section.card').first();
      check.equal(await grid.locator('h2').textContent(), '128 ranks', 'at first');
      for (const [name, title] of [
        ['4 × 4 × 4', '64 ranks'],
        ['8 × 35 × 4', '1,120 ranks'],
        ['8 × 16 × 192', '24,576 ranks'],
      ]) {
        await grid.getByRole('button', { name }).first().click();
        await page.settle();
        check.equal(await grid.locator('h2').textContent(), title, name);
        check.equal(await grid.locator('canvas').count(), 1, `${name} is drawn`);
      }
      check.contains(await grid.locator('.formula').textContent(), '24,576', 'ranks by their formula');
      const drawn = Number(await grid.locator('canvas').getAttribute('data-drawn-ms'));
      check.that(drawn > 0 && drawn < 100, `24,576 ranks drawn in ${drawn} ms, not below 100`);
      const canvas = grid.locator('canvas');
      await canvas.focus();
      for (const key of ['End', 'ArrowLeft']) await page.keyboard.press(key);
      await page.settle();
      check.contains(await page.address(), 'rank=24574', 'address');
      await page.waitForFunction(() => document.querySelector('.who dt')?.textContent === 'rank 24,574');
      const who = await grid.locator('.who').textContent();
      check.contains(who, '(stage 15)');
      check.contains(who, 'data shard 191 of 192');
      check.contains(who, 'nvlink');
      check.contains(who, '192 in all', 'peers of dp');
      // Peers are drawn: another rank, another picture; pointing at a tile is enough.
      const pixels = () => canvas.evaluate((c) => c.toDataURL());
      const before = await pixels();
      for (const x of [40, 42, 44, 46]) await canvas.hover({ position: { x, y: 2 } });
      await page.waitForFunction(
        () => !['rank 24,574', 'rank 0'].includes(document.querySelector('.who dt')?.textContent),
      );
      check.that((await pixels()) !== before, 'the peers of the rank under the pointer');
      await canvas.click({ position: { x: 2, y: 2 } });
      await page.waitForFunction(() => document.querySelector('.who dt')?.textContent === 'rank 0');
    },
  },
  {
    name: 'grid: warns where the order of axes spreads tensor parallelism over nodes',
    run: async (page, check) => {
      await page.open('/learn/mesh');
      const grid = page.locator('section.card').first();
      check.equal(await grid.locator('[role=alert]').count(), 0, 'warnings of the usual order');
      // tp goes from first to last, one place at a time, by keys alone.
      for (const next of ['cp', 'dp', 'pp']) {
        await grid.getByRole('button', { name: `tp and ${next} change places` }).focus();
        await page.keyboard.press('Enter');
        await page.settle();
      }
      check.equal((await grid.locator('.order .tag').allTextContents()).join(' '), 'cp dp pp tp', 'order');
      check.contains(await grid.locator('[role=alert]').first().textContent(), 'tp crosses nodes');
      check.contains(await page.address(), 'order=cp-ep-dp-pp-tp', 'address');
      check.contains(await grid.locator('.who').textContent(), 'infiniband: ranks');
      await grid.getByRole('button', { name: 'reset' }).click();
      await page.settle();
      check.equal(await grid.locator('[role=alert]').count(), 0, 'warnings after reset');
      await page.getByRole('button', { name: 'see that order' }).click();
      await page.settle();
      check.contains(
        await grid.locator('[role=alert]').first().textContent(),
        'tp crosses nodes',
        'from the text',
      );
    },
  },
  {
    name: 'machine: from the cluster to a device, with bandwidths as bars and numbers',
    run: async (page, check) => {
      await page.open('/learn/mesh?zoom=4');
      const machine = card(page, 'A cluster of 24,576 devices');
      for (const part of ['3,352 GB/s', '900 GB/s', '50 GB/s', '400 Gb/s', 'a factor of 18']) {
        check.contains(await machine.textContent(), part);
      }
      const levels = [
        ['24,576 devices', '1.966 PB'],
        ['3,072 devices', '245.8 TB'],
        ['16 devices', '1.28 TB'],
        ['8 devices', '640 GB'],
        ['1 device', '80 GB'],
      ];
      for (const [i, [devices, memory]] of levels.entries()) {
        const said = await status(page, 'A cluster of 24,576 devices').textContent();
        check.contains(said, devices);
        check.contains(said, memory);
        if (i < 4) await machine.locator('.inside').click();
      }
      check.equal(
        await machine
          .locator('nav [aria-current]')
          .textContent()
          .then((t) => t.trim()),
        'device',
        'breadcrumb',
      );
      await machine.getByRole('button', { name: 'pod', exact: true }).click();
      check.contains(await page.address(), 'zoom=3', 'address');
    },
  },
  {
    name: 'topology: bisection of a fat tree, a torus, traffic of a run on its links',
    run: async (page, check) => {
      await page.open('/learn/mesh?machine=cluster');
      const links = card(page, 'Links, and what a step sends');
      for (const part of ['3,072 devices', '24,576 devices', '1 : 7', 'across the middle']) {
        check.contains(await links.textContent(), part);
      }
      await links.getByLabel('machine').selectOption({ label: '8,960 TPU v5p, a torus' });
      await page.settle();
      check.contains(await links.textContent(), 'torus of 16 × 20 × 28');
      await links.getByLabel('machine').selectOption({ label: 'Llama 2 70B, 256 A100' });
      await page.settle();
      check.that((await links.locator('.lanes .tag').count()) >= 3, 'lanes of tp, pp and dp');
      check.contains(await links.textContent(), '8 rails: device k of every node on switch k');
      check.equal(await links.locator('figure .chip.lit').count(), 4, 'devices on rail 0');
      await links.getByRole('group', { name: 'rail' }).getByRole('button', { name: '5' }).click();
      check.contains(await links.locator('figcaption').textContent(), 'Device 5 of every server');
      check.contains(await page.address(), 'rail=5', 'address');
    },
  },
  {
    name: 'a device: 132 multiprocessors and 528 tensor cores of an H100',
    run: async (page, check) => {
      await page.open('/learn/mesh');
      const inside = card(page, 'What a device is made of');
      check.contains(
        await status(page, 'What a device is made of').textContent(),
        '132 multiprocessors, 528 tensor cores',
      );
      check.equal(await inside.locator('svg .processor').count(), 132, 'squares');
      check.equal(await inside.locator('svg .unit').count(), 528, 'tensor cores');
    },
  },
  {
    name: 'decision tree: leads 70B on 256 A100 to TP8 + PP + DP + ZeRO, with a plan to open',
    run: async (page, check) => {
      await page.open('/learn/mesh');
      check.contains(await status(page, 'Which split?').textContent(), 'TP8 + PP4 + DP8 + ZeRO-1: fits');
      const href = await card(page, 'Which split?')
        .getByRole('link', { name: 'Open in Plan' })
        .getAttribute('href');
      for (const part of ['model=llama-2-70b', 'cluster=a100-256', 'tp=8', 'pp=4', 'zero=1'])
        check.contains(href, part);
      const after = await card(page, 'Which split?')
        .getByRole('link', { name: /plan after question/ })
        .evaluateAll((links) => links.map((link) => link.getAttribute('href')));
      check.equal(after.length, 5, 'each answer has a plan');
      check.that(after[1].includes('tp=8') && after[1].includes('pp=1'), 'tensors first');
      check.that(after[2].includes('pp=4') && after[2].includes('zero=0'), 'then stages');
      await card(page, 'Which split?').getByLabel('case').selectOption({ label: 'Llama 3.2 1B on 8 A100' });
      await page.settle();
      check.contains(await status(page, 'Which split?').textContent(), 'DP8: fits');
      check.equal(
        await card(page, 'Cheat sheet')
          .getByRole('link', { name: /in Plan/ })
          .count(),
        8,
        'plans to open',
      );
    },
  },
  {
    name: 'numbers in bytes: 1 is 80 3f in bf16; f16 ends at 65,504; a value can be dragged',
    run: async (page, check) => {
      await page.open('/learn/precision?value=1');
      const numbers = card(page, 'A number in bytes');
      check.contains(await numbers.textContent(), '80 3f');
      check.contains(await numbers.textContent(), '= 1.00000002 · 2127 − 127', 'what the bits of bf16 say');
      await numbers.getByRole('button', { name: '1000000' }).click();
      await page.settle();
      check.contains(
        await status(page, 'A number in bytes').textContent(),
        'bf16 stores 999424, f16 infinity',
      );
      await numbers.getByLabel('value', { exact: true }).press('ArrowRight');
      await page.settle();
      check.that(!(await page.address()).includes('value=1000000'), 'dragged');
    },
  },
  {
    name: 'numbers in bytes: 1 to 8 in bf16 lie in memory as the lesson says',
    run: async (page, check) => {
      const bytes = [];
      for (let value = 1; value <= 8; ++value) {
        await page.open(`/learn/precision?value=${value}`);
        bytes.push(
          (await card(page, 'A number in bytes').locator('.type .bytes').nth(1).textContent()).trim(),
        );
      }
      const text = await page.locator('aside').first().textContent();
      check.contains(text, bytes.slice(0, 4).join(' '));
      check.contains(text, bytes.slice(4).join(' '));
    },
  },
  {
    name: 'small updates: bf16 alone loses all thousand, the master copy keeps them',
    run: async (page, check) => {
      await page.open('/learn/precision');
      const said = await status(page, 'Many small updates').textContent();
      check.contains(said, 'bf16 alone ends at 1 instead of 1.1');
      check.contains(said, '1,000 of 1,000');
    },
  },
  {
    name: 'accumulation: the batch grows with K and activations do not',
    run: async (page, check) => {
      await page.open('/learn/precision');
      const said = () => status(page, 'One update from K micro-batches').textContent();
      check.contains(await said(), '256 sequences, 524,288 tokens');
      const plot = card(page, 'One update from K micro-batches').locator('svg.plot .strong');
      const before = (await plot.last().textContent()).replace(/.*: /, '');
      await card(page, 'One update').getByLabel('steps K, as a number').fill('64');
      await card(page, 'One update').getByLabel('steps K, as a number').press('Enter');
      await page.settle();
      check.contains(await said(), '2,048 sequences');
      check.contains(await said(), '1 all-reduce instead of 64');
      check.equal((await plot.last().textContent()).replace(/.*: /, ''), before, 'activations');
    },
  },
  {
    name: 'recomputation: whole blocks cost a third more, attention 0.9 % in GPT-3; groups where they help',
    run: async (page, check) => {
      await page.open('/learn/precision');
      const again = card(page, 'Computing again');
      check.contains(await status(page, 'Computing again').textContent(), '33.3 % more FLOPs');
      check.contains(await again.textContent(), '+0.9 %');
      await again.getByRole('button', { name: /groups of/ }).click();
      check.contains(await status(page, 'Computing again').textContent(), 'groups of');
      check.contains(await card(page, 'The same, planned').textContent(), 'selective');
    },
  },
  {
    name: 'a lost rank stops all others one after the other, a slow one delays the step',
    run: async (page, check) => {
      await page.open('/learn/failures');
      const title = 'A step with one rank lost or slow';
      check.contains(await status(page, title).textContent(), '7 of 7 others end up waiting');
      check.equal(await card(page, title).locator('.stuck li').count(), 7, 'who waits');
      check.contains(
        await card(page, title).locator('.stuck li').first().textContent(),
        'rank 2 waits for rank 3',
      );
      await card(page, title).getByText('slow', { exact: true }).click();
      await page.settle();
      const times = /([\d.]+) times the/.exec(await status(page, title).textContent());
      check.that(Number(times?.[1]) > 1 && Number(times?.[1]) < 1.3, 'slower by less than the rank is');
    },
  },
  {
    name: 'checkpoints: 14 bytes of every parameter, 5.67 TB of 405B',
    run: async (page, check) => {
      await page.open('/learn/failures');
      check.contains(await status(page, 'Size of a checkpoint').textContent(), '5.67 TB to write');
    },
  },
  {
    name: 'a month with failures: its days, its share that counts, without spares and with another seed',
    run: async (page, check) => {
      await page.open('/learn/failures');
      const month = card(page, 'A month with failures');
      const says = async () => (await month.locator('.said').textContent()).replace(/\s+/g, ' ').trim();
      const first = await says();
      check.contains(first, 'failures, one in about 3.05 h');
      check.contains(await month.locator('canvas').getAttribute('aria-label'), '30 days, a row for each');
      const counts = (text) => Number(/([\d.]+) % of the month counts/.exec(text)?.[1]);
      check.that(counts(first) > 80 && counts(first) < 100, `share that counts: ${first}`);
      await month.getByText('0', { exact: true }).click();
      await page.settle();
      check.that(counts(await says()) < counts(first), `without spares less of it counts: ${await says()}`);
      check.contains(await month.innerText(), 'waiting for a spare');
      check.contains(await month.innerText(), '--spares 0');
      await month.getByRole('button', { name: 'another month' }).click();
      await page.settle();
      check.contains(await page.address(), 'month_seed=2');
    },
  },
  {
    name: 'recomputation as planned: bytes and seconds of every kind, for more sequences at a time',
    run: async (page, check) => {
      await page.open('/learn/precision');
      const planned = card(page, 'The same, planned');
      const rows = () =>
        planned
          .locator('tbody tr')
          .evaluateAll((all) => all.map((row) => [...row.cells].map((c) => c.textContent.trim())));
      const first = await rows();
      check.equal(
        first.map(([kind]) => kind).join(' '),
        'none norms light selective full every-4',
        'kinds of recomputation',
      );
      const gib = (cell) => Number(/([\d.]+)\sGiB/.exec(cell)?.[1]);
      const [none, full] = [first[0], first[4]];
      check.that(gib(full[1]) < gib(none[1]) / 2, `full keeps less: ${full[1]} of ${none[1]}`);
      check.contains(full[4], '+', 'full takes longer');
      check.contains(await planned.innerText(), '--vary parallel.recompute=none');
      await planned.getByLabel('sequences at a time, as a number').fill('8');
      await planned.getByLabel('sequences at a time, as a number').press('Enter');
      await page.settle();
      const more = await rows();
      check.near(gib(more[0][1]) / gib(none[1]), 2, 0.1, 'twice the sequences, twice the activations');
    },
  },
  {
    name: 'exercises: the core says what is right; hints have the command and the C++',
    run: async (page, check) => {
      await page.open('/learn/memory');
      const exercise = card(page, 'Check: 12B, replicated');
      await exercise.getByRole('textbox').fill('24');
      await exercise.getByRole('button', { name: 'Check' }).click();
      await exercise.getByText('Not yet: 24 is too little.').waitFor();
      await exercise.getByRole('textbox').fill('192');
      await exercise.getByRole('button', { name: 'Check' }).click();
      await exercise.getByText(/^Right: .*192 GB/).waitFor();
      await exercise.getByRole('button', { name: 'Hint' }).click();
      check.contains(await exercise.textContent(), 'tessera explain zero --params 12B --ranks 8');
      check.contains(await exercise.textContent(), 'tessera::explain("zero"');
    },
  },
];
