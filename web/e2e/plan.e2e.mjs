// The place Plan (studio's widgets 14 and 15): numbers are read off the page and compared with what
// the same core gives to the command line.
import { execFileSync } from 'node:child_process';
import { writeFileSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kTessera, why } from './server.mjs';

const verdict = (page) => page.locator('.verdict .says').innerText();
const card = (page, title) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title }) });
const figure = async (page, name) => {
  const cell = page.locator('.figures div', { has: page.locator('dt', { hasText: name }) });
  return (await cell.locator('dd').first().innerText()).trim();
};
const gibOf = (text) => Number(/([\d.]+) GiB/.exec(text)?.[1]);

export const tests = [
  {
    name: 'opens with 405B on 16,384 H100, which lacks 5.7 GiB',
    run: async (page, check) => {
      await page.open('/plan');
      check.equal(
        (await verdict(page)).trim(),
        'Does not fit. Stage 1 needs 78.7 GiB of 73.0 GiB: 5.7 GiB too much.',
        'verdict',
      );
      check.equal(
        await page.locator('.verdict h1').innerText(),
        'llama-3-405b on 16,384 H100, 2,048 sequences of 8,192 tokens',
        'what is planned',
      );
      const memory = card(page, /Memory of a rank/);
      check.equal(await memory.locator('.bar').count(), 16, 'one bar for each pipeline rank');
      check.equal(await memory.locator('.bar.over').count(), 3, 'bars over the limit');
      check.contains(await memory.innerText(), 'stage 1 is the heaviest');
      check.contains(await memory.innerText(), '60.6 GiB', 'activations of the heaviest stage');
      check.contains(await memory.innerText(), '73.0 GiB for tensors');
      check.contains(await card(page, 'Where the step goes').innerText(), 'pipeline bubble');
      check.contains(await card(page, 'Where the bytes go').innerText(), 'InfiniBand, 2,048 nodes');
      check.contains(await card(page, 'Where the bytes go').innerText(), '450 GB/s each way');
      check.that((await card(page, 'Why').locator('li').count()) >= 3, 'reasons');
      check.contains(
        await card(page, 'The same, elsewhere').innerText(),
        '--model llama-3-405b --cluster h100-16384 --tp 8 --pp 16 --zero 1 --sequence-parallel',
      );
    },
  },
  {
    name: 'simulates the step, and offers changes that make it fit',
    run: async (page, check) => {
      await page.open('/plan');
      check.contains(await card(page, /One step, simulated/).innerText(), '16 stages of 1,024 equal ranks');
      const changes = card(page, /changes make it fit/);
      check.equal(await changes.getByRole('button', { name: 'Apply' }).count(), 3, 'changes');
      check.contains(await changes.innerText(), 'recompute=norms');
      const promised = gibOf(await changes.locator('.change p').first().innerText());
      await changes.getByRole('button', { name: 'Apply' }).first().click();
      await page.settle();
      const says = await verdict(page);
      check.contains(says, 'Fits.');
      check.near(gibOf(says), promised, 1e-9, 'memory as promised');
      check.contains(await page.address(), 'cp=', 'the address');
    },
  },
  {
    name: 'snaps sliders to what a plan accepts, and says why not another',
    run: async (page, check) => {
      await page.open('/plan');
      const tp = page.getByRole('slider', { name: /^tp/ });
      await tp.focus();
      await page.keyboard.press('ArrowLeft');
      await page.settle();
      const field = page.getByRole('spinbutton', { name: 'tp, as a number' });
      check.equal(await field.inputValue(), '4', 'the next valid value below 8');
      await field.fill('6');
      await field.press('Enter');
      check.contains(await page.locator('.rail [role=alert]').innerText(), 'Use 4 or 8');
      check.equal(await field.inputValue(), '4', 'the last valid value stays');
    },
  },
  {
    name: 'scenario: 7B on 8 replicated is over the limit, FSDP fits',
    run: async (page, check) => {
      await page.open('/plan');
      await page.getByRole('button', { name: '7B on 8, replicated: over the limit' }).click();
      await page.settle();
      check.contains(await verdict(page), 'Does not fit.');
      await page.getByRole('button', { name: '7B on 8, FSDP: fits' }).click();
      await page.settle();
      check.contains(await verdict(page), 'Fits.');
    },
  },
  {
    name: 'scenarios: 405B on 128 fits with tp 8, pp 4 and FSDP; on 8 nothing helps',
    run: async (page, check) => {
      await page.open('/plan');
      await page.getByRole('button', { name: '405B on 128: tp 8, pp 4, FSDP' }).click();
      await page.settle();
      check.contains(await verdict(page), 'Fits.');
      check.equal(
        await card(page, /Memory of a rank/)
          .locator('.bar')
          .count(),
        4,
        'stages',
      );
      await page.getByRole('button', { name: '405B on 8: impossible' }).click();
      await page.settle();
      check.contains(await verdict(page), 'Does not fit.');
      check.equal(
        await page.getByRole('heading', { name: 'Nothing makes it fit here' }).count(),
        1,
        'advice',
      );
    },
  },
  {
    name: 'lets the planner choose: tp within a node, then pp, then data parallelism with ZeRO',
    run: async (page, check) => {
      await page.open('/plan?model=llama-3-70b&cluster=a100-256&global_batch=1024&seq_len=4096');
      check.contains(await verdict(page), 'Fits.');
      check.contains(await page.locator('.product').innerText(), '= 256 ranks');
      const size = async (axis) =>
        Number(await page.getByRole('spinbutton', { name: `${axis}, as a number` }).inputValue());
      const [tp, pp] = [await size('tp'), await size('pp')];
      const dp = Number(await page.getByLabel('dp, replicas').innerText());
      check.that(tp > 1 && tp <= 8, `tp ${tp} is within a node`);
      check.that(pp > 1, `pp ${pp} takes what tp leaves`);
      check.that(dp > 1, `dp ${dp} takes the rest`);
      check.equal(tp * pp * dp, 256, 'all devices');
      // Where replicas would not fit, their states are shared out.
      await page.open('/plan?model=llama-2-13b&cluster=a100-64&global_batch=1024&seq_len=4096');
      check.contains(await verdict(page), 'Fits.');
      const zero = page.getByRole('group', { name: 'ZeRO' });
      check.equal(await zero.locator('label.on').innerText(), '1', 'ZeRO');
      check.equal(await size('pp'), 2, 'pp of 13B');
      check.equal(await page.getByLabel('dp, replicas').innerText(), '32', 'dp of 13B');
      // Moving one axis keeps the others as they were chosen.
      await page.getByRole('slider', { name: /^pp/ }).focus();
      await page.keyboard.press('ArrowRight');
      await page.settle();
      check.contains(await page.address(), 'zero=1', 'the address after a move');
    },
  },
  {
    name: 'lets the planner choose: the same as tessera plan --json says',
    skip: why || undefined,
    run: async (page, check) => {
      const run = { model: 'llama-3-70b', cluster: 'a100-256', global_batch: '1024', seq_len: '4096' };
      for (const more of [{}, { zero: '1', tp: '8', pp: '4' }]) {
        const flags = Object.entries({ ...run, ...more }).map(
          ([key, value]) => `--${key.replaceAll('_', '-')}=${value}`,
        );
        const said = JSON.parse(execFileSync(kTessera, ['plan', ...flags, '--json'], { maxBuffer: 1 << 28 }));
        await page.open(`/plan?${new URLSearchParams({ ...run, ...more })}`);
        const mesh = (await page.locator('.product').innerText()).replace(/\s+/g, ' ');
        for (const axis of ['tp', 'pp', 'dp'])
          check.contains(mesh, `${axis} ${said.mesh[axis]}`, `${axis} of ${JSON.stringify(said.mesh)}`);
        check.contains(await verdict(page), `needs ${(said.peak_bytes / 2 ** 30).toFixed(1)} GiB of`);
        check.contains(await verdict(page), said.fits ? 'Fits.' : 'Does not fit.');
        check.equal(await figure(page, 'step, priced'), `${said.time.step_s.toFixed(3)} s`, 'step');
        check.equal(await figure(page, 'MFU'), `${(100 * said.rates.mfu).toFixed(1)} %`, 'MFU');
      }
    },
  },
  {
    name: 'takes a config.json of Hugging Face, and its link shows the same',
    run: async (page, check) => {
      await page.open('/plan?model=llama-3-8b&cluster=h100-8&tp=1&pp=1&zero=3&seq_len=4096&global_batch=64');
      const before = await verdict(page);
      const config = {
        architectures: ['LlamaForCausalLM'],
        model_type: 'llama',
        hidden_size: 2048,
        intermediate_size: 8192,
        num_attention_heads: 32,
        num_hidden_layers: 16,
        num_key_value_heads: 8,
        vocab_size: 128256,
        rms_norm_eps: 1e-5,
        rope_theta: 500000,
        hidden_act: 'silu',
        tie_word_embeddings: true,
        max_position_embeddings: 4096,
      };
      const file = join(mkdtempSync(join(tmpdir(), 'plan-')), 'config.json');
      writeFileSync(file, JSON.stringify(config));
      await page.locator('input[type=file]').setInputFiles(file);
      await page.waitForFunction(() => location.hash.includes('config.json'));
      await page.settle();
      const after = await verdict(page);
      check.that(after !== before, 'another model, another plan');
      check.contains(await page.locator('.verdict h1').innerText(), 'config.json on 8 H100');
      const link = (await page.address()).split('#')[1];
      await page.open(link);
      check.equal(await verdict(page), after, 'the link');
    },
  },
  {
    name: 'pins A, shows what B buys and costs, and swaps them with x',
    run: async (page, check) => {
      await page.open('/plan');
      await page.getByRole('button', { name: 'Pin as A' }).click();
      const recompute = page.getByLabel('Recompute');
      await recompute.selectOption({ label: 'full' });
      await page.settle();
      const table = card(page, 'A beside B');
      const memory = table.locator('tr', { hasText: 'memory' });
      check.contains(await memory.innerText(), '−', 'less memory');
      check.contains(await table.locator('tr', { hasText: 'kernels' }).innerText(), '+', 'more kernels');
      check.contains(await table.innerText(), 'recompute: - → full');
      const step = await figure(page, 'step, priced');
      await page.locator('.verdict h1').click();
      await page.keyboard.press('x');
      await page.settle();
      check.that((await figure(page, 'step, priced')) !== step, 'B is what A was');
      check.contains(await memory.innerText(), '+', 'more memory');
      check.contains(await page.address(), 'a=', 'A is in the address');
    },
  },
  {
    name: 'gives the same as TOML and as settings of other systems',
    run: async (page, check) => {
      await page.open('/plan');
      const same = card(page, 'The same, elsewhere');
      const says = await verdict(page);
      const as = async (name) => {
        await same.getByLabel('As', { exact: true }).selectOption({ label: name });
        await page.settle();
        return same.innerText();
      };
      for (const part of [
        '--tensor-model-parallel-size 8',
        '--pipeline-model-parallel-size 16',
        '--sequence-parallel',
        '--use-distributed-optimizer',
        '--global-batch-size 2048',
      ])
        check.contains(await as('Megatron'), part, 'Megatron');
      // What they have no setting for is refused, with the setting and what to use instead.
      check.contains(await as('torchtitan'), 'torchtitan has no setting for: parallel.zero = 1');
      check.contains(await as('torchtitan'), 'use 0 or 3');
      check.contains(await as('DeepSpeed'), 'DeepSpeed has no setting for: parallel.stage_layers');
      check.contains(await as('nanotron'), 'nanotron has no setting for: model.rope_scaling');
      await same.getByLabel('As', { exact: true }).selectOption({ label: 'TOML' });
      const toml = await same.locator('pre').innerText();
      check.contains(toml, 'preset = "llama-3-405b"');
      const file = join(mkdtempSync(join(tmpdir(), 'plan-')), 'run.toml');
      writeFileSync(file, toml);
      await page.locator('input[type=file]').setInputFiles(file);
      await page.waitForFunction(() => location.hash.includes('run_file'));
      await page.settle();
      check.equal(await verdict(page), says, 'the run file is the same run');
    },
  },
  {
    name: 'gives settings of torchtitan, DeepSpeed and nanotron for runs that they can do',
    run: async (page, check) => {
      const base = 'cluster=h100-16&tp=8&pp=1&seq_len=4096&global_batch=64';
      for (const [form, run, parts] of [
        [
          'torchtitan',
          `model=llama-3-8b&zero=3&sequence_parallel=true&${base}`,
          ['tensor_parallel_degree = 8', 'pipeline_parallel_degree = 1', 'seq_len = 4096'],
        ],
        [
          'deepspeed',
          `model=llama-2-7b&zero=1&${base}`,
          ['"zero_optimization"', '"stage": 1', '"train_batch_size": 64'],
        ],
        ['nanotron', `model=llama-2-7b&zero=1&${base}`, ['tp: 8', 'pp: 1', 'dp: 2', 'zero_stage: 1']],
      ]) {
        await page.open(`/plan?${run}&as=${form}`);
        const text = await card(page, 'The same, elsewhere').locator('pre').innerText();
        for (const part of parts) check.contains(text, part, form);
      }
    },
  },
  {
    name: 'says how memory and step add up, and is reset to what it opened with',
    run: async (page, check) => {
      await page.open('/plan?model=llama-3-8b&cluster=h100-8&tp=2&pp=1&zero=1&seq_len=4096&global_batch=64');
      const memory = card(page, 'Memory of a rank');
      check.equal(await memory.locator('.formula').count(), 0, 'a formula is shown when it is asked for');
      await memory.getByText('how it adds up').click();
      const sum = await memory.locator('.formula').getAttribute('aria-label');
      check.contains(sum, 'parameters + gradients + optimizer + activations + communication + workspace');
      const [, terms, total] = / = ([\d,+ ]+) = ([\d,]+) B = [\d.]+ GiB$/.exec(sum) ?? [];
      const number = (text) => Number(text.replaceAll(',', ''));
      check.equal(
        terms
          ?.split(' + ')
          .map(number)
          .reduce((a, b) => a + b, 0),
        number(total ?? ''),
        `bytes of ${sum}`,
      );
      const step = card(page, 'Where the step goes');
      await step.getByText('how it adds up').click();
      check.contains(
        await step.locator('.formula').getAttribute('aria-label'),
        'a step, in seconds: kernels + ',
      );
      await page.getByRole('slider', { name: /^tp/ }).focus();
      await page.keyboard.press('ArrowRight');
      await page.settle();
      check.that(
        (await memory.locator('.formula').getAttribute('aria-label')) !== sum,
        'it follows the slider',
      );
      await page.getByRole('button', { name: 'Pin as A' }).click();
      await page.getByRole('button', { name: 'reset to the first run' }).click();
      await page.settle();
      check.equal((await page.address()).split('#')[1], '/plan', 'address');
      check.contains(await page.locator('.verdict h1').innerText(), 'llama-3-405b on 16,384 H100');
    },
  },
  {
    name: 'searches in a worker, with progress, and loads a plan by a click',
    run: async (page, check) => {
      await page.open('/plan?model=llama-3-8b&cluster=h100-16&global_batch=64&seq_len=4096');
      const search = card(page, 'Search all splits');
      await search.getByRole('button', { name: 'Search', exact: true }).click();
      await search.getByText(/The best takes/).waitFor({ timeout: 50_000 });
      check.that((await search.locator('tbody tr').count()) === 10, 'ten plans');
      check.equal(await search.locator('svg.plot').count(), 1, 'the front');
      await search.getByRole('button', { name: 'step s' }).click();
      await search.getByRole('button', { name: 'step s' }).click();
      const steps = (await search.locator('tbody tr td:nth-child(12)').allInnerTexts()).map(Number);
      check.that(
        steps.every((s, i) => i === 0 || s <= steps[i - 1]),
        `sorted down: ${steps}`,
      );
      await search.getByRole('button', { name: 'step s' }).click();
      const best = await search.locator('tbody tr').first().locator('td').nth(11).innerText();
      await search.locator('tbody tr').first().getByRole('button').click();
      await page.settle();
      check.near(
        Number.parseFloat(await figure(page, 'step, priced')),
        Number(best),
        0.05,
        'step of the plan',
      );
    },
  },
  {
    name: 'gives memory, traffic, MFU, tokens/s, days and cost of a plan',
    run: async (page, check) => {
      await page.open('/plan');
      check.equal(await figure(page, 'step, priced'), '11.579 s', 'step');
      check.equal(await figure(page, 'tokens/s'), '1,448,900', 'tokens/s');
      check.equal(await figure(page, 'MFU'), '22.6 %', 'MFU');
      check.equal(await figure(page, '15T tokens'), '119.8 days', 'days');
      check.equal(await figure(page, 'at 3 USD/h'), '141.3 M USD', 'cost');
      // 15e12 tokens / 1,448,900 per s = 119.8 days; 119.8 days x 24 h x 16,384 x 3 USD = 141.3 M USD
      const bytes = card(page, 'Where the bytes go');
      check.contains((await bytes.innerText()).replace(/\s+/g, ' '), '280.0 GiB, 556.9 ms', 'tp over NVLink');
      check.contains(
        (await bytes.innerText()).replace(/\s+/g, ' '),
        '17.7 GiB, 548.3 ms',
        'dp over InfiniBand',
      );
    },
  },
  {
    name: 'has every model, cluster and recipe of the catalogue',
    run: async (page, check) => {
      await page.open('/plan');
      const names = (label) => page.getByLabel(label, { exact: true }).locator('option').allInnerTexts();
      check.equal((await names('Model')).length, 62, 'models');
      check.equal((await names('Cluster')).length, 21, 'clusters');
      check.equal((await names('Recipe')).length, 8, 'recipes, and none');
      for (const name of ['llama-3-405b', 'deepseek-v3', 'gpt2'])
        check.that((await names('Model')).includes(name), name);
      await page.getByLabel('Model', { exact: true }).selectOption({ label: 'deepseek-v3' });
      await page.settle();
      check.contains(await page.locator('.verdict h1').innerText(), 'deepseek-v3 on');
    },
  },
  {
    name: 'takes a file that is dropped anywhere on the page',
    run: async (page, check) => {
      await page.open('/plan?model=llama-3-8b&cluster=h100-8&tp=1&pp=1&zero=3&seq_len=4096&global_batch=64');
      await page.evaluate(() => {
        const config = {
          model_type: 'llama',
          hidden_size: 1024,
          intermediate_size: 4096,
          num_attention_heads: 16,
          num_hidden_layers: 8,
          num_key_value_heads: 16,
          vocab_size: 32000,
          tie_word_embeddings: false,
          max_position_embeddings: 4096,
        };
        const files = new DataTransfer();
        files.items.add(new File([JSON.stringify(config)], 'small.json'));
        document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, dataTransfer: files }));
      });
      await page.waitForFunction(() => location.hash.includes('small.json'));
      await page.settle();
      check.contains(await page.locator('.verdict h1').innerText(), 'small.json on 8 H100');
      check.contains(await verdict(page), 'Fits.');
      await page.evaluate(() => {
        const files = new DataTransfer();
        files.items.add(new File(['x'], 'notes.txt'));
        document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, dataTransfer: files }));
      });
      await page.getByText('notes.txt: take a config.json').waitFor();
      check.contains(await page.locator('.verdict h1').innerText(), 'small.json', 'the run stays');
    },
  },
  {
    name: "a search says its front, its reasons and what it left out; its best plan is the planner's",
    run: async (page, check) => {
      await page.open('/plan?model=llama-3-8b&cluster=h100-16&tp=1&pp=1&zero=3&global_batch=64&seq_len=4096');
      const search = card(page, 'Search all splits');
      await search.getByRole('button', { name: 'Search', exact: true }).click();
      await search.getByText(/The best takes/).waitFor({ timeout: 50_000 });
      check.contains(await search.innerText(), 'Why the first.');
      await search.getByText('What was left out, and why').click();
      check.that((await search.locator('details li').count()) > 0, 'reasons');
      check.contains(await search.locator('svg.plot').getAttribute('aria-label'), 'Front of');
      const best = Number(
        /The best takes ([\d.]+) (m?)s/.exec(await search.locator('.done').innerText())?.[1],
      );
      const first = search.locator('tbody tr').first();
      check.near(Number(await first.locator('td').nth(11).innerText()), best, 0.001, 'the first row');
      // What the cost model prices may need more bytes in our Programs: it says so, and the plan too.
      const [row] = await search.locator('tbody tr', { hasText: 'no' }).all();
      await row.getByRole('button').click();
      await page.settle();
      const lacks = /its Programs need ([\d.]+ GiB)/.exec(await search.locator('.why').innerText());
      check.contains(await verdict(page), `needs ${lacks?.[1]} of`);
      await search.locator('tbody tr', { hasText: 'yes' }).first().getByRole('button').click();
      await page.settle();
      check.contains(await verdict(page), 'Fits.');
    },
  },
  {
    name: 'gives up a search that is cancelled',
    run: async (page, check) => {
      await page.open('/plan');
      const search = card(page, 'Search all splits');
      await search.getByRole('button', { name: 'Search', exact: true }).click();
      await search.getByRole('button', { name: 'Cancel' }).click();
      check.equal(
        await search.getByRole('button', { name: 'Search', exact: true }).count(),
        1,
        'ready again',
      );
    },
  },
  {
    name: 'checks an MFU: 400 of 989 TFLOP/s is 40.4 %',
    run: async (page, check) => {
      await page.open('/plan');
      check.contains(await card(page, 'Check an MFU').innerText(), '400 of 989 TFLOP/s is 40.4 %');
    },
  },
  {
    name: 'refuses what cannot be, keeps the picture and offers the nearest',
    run: async (page, check) => {
      await page.open('/plan?model=llama-3-8b&cluster=h100-8&tp=3&pp=1&zero=1');
      check.contains(await page.getByRole('region', { name: 'Refused' }).innerText(), 'This run cannot be');
      await page.getByRole('button', { name: /^Use tp/ }).click();
      await page.settle();
      check.equal(await page.getByRole('region', { name: 'Refused' }).count(), 0, 'refusals');
    },
  },
  {
    name: 'loads a recipe by name, with what was published beside it',
    run: async (page, check) => {
      await page.open('/plan');
      await page.getByLabel('Recipe').selectOption({ label: 'llama-3-405b-8k' });
      await page.settle();
      check.contains(await card(page, 'Why').innerText(), 'published');
      check.contains(await page.locator('.verdict h1').innerText(), '16,384');
    },
  },
  {
    name: 'has the verdict first and the rail as a sheet at 360 pixels',
    options: { viewport: { width: 360, height: 740 } },
    run: async (page, check) => {
      await page.open('/plan');
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      check.equal(width, 360, 'nothing is wider than the screen');
      check.that(!(await page.getByLabel('Model', { exact: true }).isVisible()), 'controls are away');
      await page.getByRole('button', { name: 'Change' }).click();
      check.that(await page.getByLabel('Model', { exact: true }).isVisible(), 'the sheet is open');
      await page.keyboard.press('Escape');
      check.that(!(await page.getByLabel('Model', { exact: true }).isVisible()), 'Escape closes it');
    },
  },
];
