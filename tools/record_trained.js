// Writes tests/data/tokenizers/trained.json: what the reference library makes of tokenizers that `tessera data tokenizer train` wrote,
// one for each way to split, over the texts of recorded.json. Of each it keeps the hash of the file and one for every fifty texts.
// Usage: npm install tokenizers (in a folder outside the repository), then
//   NODE_PATH=FOLDER/node_modules node tools/record_trained.js build/bin/tessera tests/data/tokenizers
'use strict';
const { Tokenizer } = require('tokenizers');
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { Hash, hashes } = require('./recorded_hash.js');

const [, , tessera, folder] = process.argv;
const options = { seed: 1, bytes: 60000, vocab: 1000 };
const chunk = 50;

(async () => {
  const texts = JSON.parse(fs.readFileSync(`${folder}/recorded.json`, 'utf8')).texts;
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'record-trained-'));
  // Stories, so that words repeat, and the odd strings, so that other pieces do.
  const stories = execFileSync(tessera, ['data', 'synth', '--seed', `${options.seed}`, '--bytes', `${options.bytes}`]);
  fs.writeFileSync(`${work}/text`, Buffer.concat([stories, Buffer.from(texts.join('\n'), 'utf8')]));
  const trained = [];
  for (const split of ['gpt2', 'llama3', 'qwen2']) {
    const out = `${work}/${split}`;
    execFileSync(tessera, ['data', 'tokenizer', 'train', `${work}/text`, '--vocab', `${options.vocab}`, '--split', split, '--out', out, '-q']);
    const text = fs.readFileSync(`${out}/tokenizer.json`, 'utf8');
    const file = new Hash();
    file.text(text);
    trained.push({ split, file: file.hex(), hashes: await hashes(Tokenizer.fromString(text), texts, chunk) });
  }
  fs.rmSync(work, { recursive: true });
  const lines = [`{"library": "tokenizers 0.23.2", "chunk": ${chunk},`, ...Object.entries(options).map(([key, value]) => `"${key}": ${value},`),
    `"trained": [\n${trained.map((t) => JSON.stringify(t)).join(',\n')}]}`];
  fs.writeFileSync(`${folder}/trained.json`, `${lines.join('\n')}\n`);
})();
