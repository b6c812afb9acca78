// Writes tests/data/tokenizers/fuzz.json: what the reference library makes of 100,000 odd strings, for each tokenizer
// beside it, as one hash for every 500 strings. The strings are made from their numbers, here and in
// src/data/testing/odd_strings.cc in the same way; so no string is kept, and a share of them can be tried.
// Usage: npm install tokenizers (in a folder outside the repository), then
//   NODE_PATH=FOLDER/node_modules node tools/record_fuzz.js tests/data/tokenizers
// A hash that differs leads to its string: the chunk as a golden file, which `tessera verify --golden` compares.
//   ... node tools/record_fuzz.js tests/data/tokenizers KIND CHUNK > chunk.json
//   tessera verify --tokenizer tests/data/tokenizers/KIND --golden chunk.json
// The package `tokenizers` is the reference library itself. `@huggingface/tokenizers` 0.2.0, a port to JavaScript,
// differs from it in 21 of 3,000 such strings: its normal forms follow the Unicode of the engine, those of the library Unicode 9,
// and it leaves merges undone in two strings of gpt2. The library is right, for the goldens are its; so the port is no oracle here.
'use strict';
const { Tokenizer } = require('tokenizers');
const fs = require('fs');

const [, , folder, shownKind, shownChunk] = process.argv;
const count = 100000;
const chunk = 500;
const kinds = ['gpt2', 'llama3', 'qwen2', 'llama2', 'metaspace', 'unigram'];
const { borders, parts } = JSON.parse(fs.readFileSync(`${folder}/odd_parts.json`, 'utf8'));
const all = borders.concat(parts);

class Random {
  constructor(number) { this.state = Math.imul(number + 1, 0x9e3779b9) >>> 0; }
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), this.state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }
  below(n) { return Math.floor((this.next() * n) / 4294967296); }
  of(list) { return list[this.below(list.length)]; }
}

function character(random) {
  const kind = random.below(20);
  if (kind < 8) return String.fromCodePoint(32 + random.below(95));
  const limit = kind < 12 ? 0x250 : kind < 17 ? 0x10000 : 0x110000;
  let code = 0xd800;
  while (code >= 0xd800 && code <= 0xdfff) code = random.below(limit);
  return String.fromCodePoint(code);
}

function mixture(random, list, most) {
  let made = '';
  for (let left = random.below(most) + 1; left > 0; --left) made += random.below(4) > 0 ? random.of(list) : character(random);
  return made;
}

function words(random) {
  let made = '';
  for (let left = random.below(30) + 1; left > 0; --left) {
    const capital = random.below(6) === 0 ? 65 : 97;
    for (let i = 0, letters = random.below(9) + 1; i < letters; ++i) {
      made += String.fromCodePoint((i === 0 ? capital : 97) + random.below(26));
    }
    made += [' ', ' ', ' ', ', ', '. ', '\n', "'s "][random.below(7)];
  }
  return made;
}

function anyBytes(random) {
  const bytes = [];
  for (let left = random.below(40) + 1; left > 0; --left) {
    bytes.push(random.below(3) === 0 ? 32 + random.below(95) : 128 + random.below(128));
  }
  return Buffer.from(bytes);
}

function damaged(random) {
  let bytes = Buffer.from(mixture(random, all, 16));
  for (let left = random.below(3) + 1; left > 0; --left) bytes[random.below(bytes.length)] = random.below(256);
  return random.below(2) === 0 ? bytes : bytes.subarray(0, random.below(bytes.length) + 1);
}

// The bytes of string `number`; one in eight is not UTF-8.
function oddString(number) {
  const random = new Random(number);
  const style = random.below(16);
  if (style === 0) return Buffer.from(random.of(all).repeat(random.below(300) + 1) + mixture(random, all, 3));
  if (style === 1) return anyBytes(random);
  if (style === 2) return damaged(random);
  if (style < 5) return Buffer.from(words(random));
  if (style < 8) return Buffer.from(mixture(random, borders, 12));
  return Buffer.from(mixture(random, all, 20));
}

// FNV-1a, 64 bits, of numbers as four bytes, lowest first; lists and texts begin with their length.
class Hash {
  constructor() { this.high = 0xcbf29ce4; this.low = 0x84222325; }
  byte(b) {
    const low = (this.low ^ b) >>> 0;
    const product = low * 0x1b3;  // times 2^40 + 0x1b3
    this.high = (Math.imul(this.high, 0x1b3) + Math.floor(product / 4294967296) + (low << 8)) >>> 0;
    this.low = product >>> 0;
  }
  number(n) { for (let i = 0; i < 4; ++i) this.byte((n >>> (8 * i)) & 255); }
  list(numbers) { this.number(numbers.length); numbers.forEach((n) => this.number(n)); }
  text(t) { const b = Buffer.from(t, 'utf8'); this.number(b.length); for (const c of b) this.byte(c); }
  hex() { return (this.high.toString(16).padStart(8, '0') + this.low.toString(16).padStart(8, '0')); }
}

// U+FFFD for what is not UTF-8, as browsers have it; the library is given text, never bytes.
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const textsOf = (number) => Array.from({ length: chunk }, (_, i) => utf8.decode(oddString(number * chunk + i)));

async function answers(tokenizer, texts) {
  const whole = await tokenizer.encodeBatch(texts, { addSpecialTokens: true });
  const plain = await tokenizer.encodeBatch(texts, { addSpecialTokens: false });
  const bare = await tokenizer.decodeBatch(plain.map((e) => e.getIds()), true);
  const full = await tokenizer.decodeBatch(whole.map((e) => e.getIds()), false);
  return texts.map((text, i) => ({ text, ids: whole[i].getIds(), ids_no_special: plain[i].getIds(), decoded: bare[i], full: full[i] }));
}

const load = (kind) => Tokenizer.fromString(fs.readFileSync(`${folder}/${kind}/tokenizer.json`, 'utf8'));

async function show(kind, number) {
  const shown = await answers(load(kind), textsOf(number));
  process.stdout.write(`[\n${shown.map(({ full, ...golden }) => JSON.stringify(golden)).join(',\n')}]\n`);
}

async function record() {
  const hashes = { texts: [] };
  for (const kind of kinds) hashes[kind] = [];
  const tokenizers = Object.fromEntries(kinds.map((kind) => [kind, load(kind)]));
  for (let number = 0; number < count / chunk; ++number) {
    const texts = textsOf(number);
    const ofTexts = new Hash();
    texts.forEach((text) => ofTexts.text(text));
    hashes.texts.push(ofTexts.hex());
    for (const kind of kinds) {
      const hash = new Hash();
      for (const one of await answers(tokenizers[kind], texts)) {
        hash.list(one.ids);
        hash.list(one.ids_no_special);
        hash.text(one.decoded);
        hash.text(one.full);
      }
      hashes[kind].push(hash.hex());
    }
  }
  const rows = Object.entries(hashes).map(([name, list]) => `"${name}": [\n${
    list.map((h, i) => `"${h}"${i + 1 < list.length ? ',' : ''}${i % 6 === 5 ? '\n' : ' '}`).join('').trimEnd()}]`);
  fs.writeFileSync(`${folder}/fuzz.json`,
    `{"library": "tokenizers 0.23.2", "count": ${count}, "chunk": ${chunk},\n${rows.join(',\n')}}\n`);
}

if (shownKind) show(shownKind, Number(shownChunk)); else record();
