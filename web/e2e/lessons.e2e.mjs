// docs/lessons.md says what is wrong in lessons that circulate, and what is so: each of its rows stands in a lesson,
// where the reader of that number looks for it.
import { readFileSync } from 'node:fs';
import { kLessons } from './pages.mjs';

// A row by the beginning of what is said; the lesson; what its page must say instead.
const kRows = [
  ['training takes 12 bytes', 'one-device', ['12 or 16 bytes?', '2 + 2 + 8 = 12']],
  ['405B parameters need 3.2 TB', 'one-device', ['6.48 TB']],
  ['ZeRO 1 to 3 on 8 ranks', 'zero', ['forgets the f32 copy (2 + 2 + 12/8 = 5.5)']],
  ['8 x 80 GB hold 40B', 'zero', ['14.55B, 21.33B and 40B parameters', 'fits 80/16 = 5B']],
  ['ZeRO-3 sends three times', 'zero', ['3 P against 2 P is 1.5', 'counts an all-reduce as']],
  ['HSDP sends the gradient once', 'zero', ['an all-reduce of the slice: 2 (G−1)/G · P/K']],
  [
    '405B in 17 days at about 40 %',
    'one-device',
    ['The 17 days are at 100 %', '43.39 days', '54 days, which is 32.14 %'],
  ],
  ["GPT-3's 3 x 10^23 FLOPs", 'one-device', ['11,685 device-days']],
  ['Llama 2 70B has 32 layers', 'memory', ['32 layers or 80?', '53.7']],
  ['activations of 8.6 GB', 'memory', ['8.6 GB', 'At 32,768 tokens the stream alone is 137.4 GB']],
  ['an all-reduce of 14 GB', 'data-parallel', ['14 GB at 600 GB/s take 23 ms', '40.83 ms at 600 GB/s']],
  ['2 x 96 all-reduces', 'tensor', ['6.442 GB are summed in a forward pass, 6 GiB']],
  [
    'tensor parallelism has one all-reduce',
    'tensor',
    ['every block forward and two backward: 128 in a step of 32 layers'],
  ],
  [
    'tensor parallelism all-reduces 4M',
    'tensor',
    ['128 GB a block and 71 s a step', '137.4 GB and 76.97 s', 'a micro-batch of its own replica'],
  ],
  ['column then row parallel', 'tensor', ['Between the two products nothing is sent']],
  ['InfiniBand has 200 to 400', 'mesh', ['is off by eight', '25 and 50 GB/s']],
  ['so NVLink is 3 to 10 times', 'mesh', ['50 GB/s, an eighteenth of NVLink']],
  ['PCIe 4 x16', 'mesh', ['PCIe 4 has 32 GB/s each way, 64 in both; 12.5 GB/s is a network of 100 Gb/s']],
  ["a TPU's links", 'mesh', ['4,800 Gb/s of a chip, 100 GB/s on each of six links']],
  ['NVLink has 25 GB/s', 'mesh', ['450 in each direction', '25 and 50 GB/s']],
  ['NVLink 4 has 900 GB/s', 'mesh', ["an H100's 900; a ring sends with half of it"]],
  ["H100's NVLink has 600", 'mesh', ["An A100's NVLink has 600 GB/s in both directions, an H100's 900"]],
  ['B200 has 5,000', 'mesh', ['2,250 dense in bf16']],
  ['B200 has 192 GB', 'mesh', ['Of the 192 GB on its package 180 can be used']],
  ['from K40 to B200', 'mesh', ['450 times as many; the thousandfold that is quoted counts sparse products']],
  ['a tensor core does', 'mesh', ['512 products and as many sums. Counting both makes 1,024']],
  [
    'a product of 4096^3',
    'mesh',
    ['1,365 FLOP/byte', 'Counting the inputs alone the product has 2,048', 'ReLU 0.25'],
  ],
  ['selective recomputation costs', 'precision', ['5 to 10 %?', '0.9 % for GPT-3']],
  [
    'the bubble is (P-1)/M',
    'pipelines',
    ['waiting over working time. Of the whole step it is (P−1)/(M+P−1)'],
  ],
  ['buffers of communication', 'memory', ['a few hundred MB where they are not zero', '1 to 2 GB']],
  ['Llama 2 70B was trained', 'one-device', ['2,048 A100 are published of LLaMA 65B, not of Llama 2 70B']],
  [
    "Llama 2's cluster",
    'failures',
    ['We know of no publication that says so', '419 unexpected interruptions in 54 days'],
  ],
];

export const tests = [
  {
    name: 'every row of what is said and what is so stands in its lesson',
    run: async (page, check) => {
      const said = readFileSync(new URL('../../docs/lessons.md', import.meta.url), 'utf8')
        .split('\n')
        .filter((line) => line.startsWith('| ') && !line.startsWith('| what is said'))
        .map((line) => line.split('|')[1].trim());
      check.that(said.length >= 30, `${said.length} rows`);
      for (const row of said)
        check.that(
          kRows.some(([begins]) => row.startsWith(begins)),
          `no lesson is named for '${row}'`,
        );
      check.equal(kRows.length, said.length, 'rows');
      for (const lesson of kLessons) {
        const rows = kRows.filter(([, of]) => of === lesson);
        if (rows.length === 0) continue;
        await page.open(`/learn/${lesson}`);
        const text = (await page.locator('article').innerText()).replace(/\s+/g, ' ');
        for (const [row, , parts] of rows)
          for (const part of parts)
            check.that(text.includes(part), `${lesson} does not say '${part}' (${row})`);
      }
    },
  },
];
