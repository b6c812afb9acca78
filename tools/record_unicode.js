// Writes src/data/tokenizer/unicode_tables.cc: which characters the reference library takes for letters,
// numbers, word characters, and which it does not normalize, asked one by one. Its parts follow different
// versions of Unicode (regular expressions 16, added tokens 16, digits 17, normal forms 9), so no one version's tables
// would do.
// Usage: npm install tokenizers (in a folder outside the repository), then
//   NODE_PATH=FOLDER/node_modules node tools/record_unicode.js > src/data/tokenizer/unicode_tables.cc
'use strict';
const { Tokenizer } = require('tokenizers');

function make(parts) {
  const model = { type: 'BPE', vocab: { a: 0 }, merges: [] };
  return Tokenizer.fromString(JSON.stringify({ version: '1.0', added_tokens: [], model, ...parts }));
}

const points = [];
for (let c = 0; c < 0x110000; ++c) if (c < 0xd800 || c > 0xdfff) points.push(c);

// The characters that a regular expression of the library matches: those that replacing removes.
function matching(regex) {
  const normalizer = make({ normalizer: { type: 'Replace', pattern: { Regex: regex }, content: '' } }).getNormalizer();
  const left = new Set(points);
  for (let i = 0; i < points.length; i += 20000) {
    const text = String.fromCodePoint(...points.slice(i, i + 20000));
    for (const c of normalizer.normalizeString(text)) left.delete(c.codePointAt(0));
  }
  return points.filter((c) => left.has(c));
}

function pieces(type, options) {
  const splitter = make({ pre_tokenizer: { type, ...options } }).getPreTokenizer();
  return (text) => splitter.preTokenizeString(text);
}

function ranges(list) {
  const out = [];
  for (const c of list) {
    if (out.length && out[out.length - 1][1] === c - 1) out[out.length - 1][1] = c;
    else out.push([c, c]);
  }
  return out;
}

function print(name, comment, list) {
  const words = ranges(list).map(([a, b]) => `{0x${a.toString(16)}, 0x${b.toString(16)}},`);
  console.log(`\n// ${comment}`);
  console.log(`constexpr CharacterRange ${name}[] = {`);
  let line = '   ';
  for (const word of words) {
    if (line.length + 1 + word.length > 100) {
      console.log(line);
      line = '   ';
    }
    line += ' ' + word;
  }
  console.log(`${line}\n};`);
}

const letters = matching('\\p{L}');
const numbers = matching('\\p{N}');
const decimals = matching('\\d');
const words = pieces('Whitespace', {});
const digits = pieces('Digits', { individual_digits: true });
const nfd = make({ normalizer: { type: 'NFD' } }).getNormalizer();
const nfkd = make({ normalizer: { type: 'NFKD' } }).getNormalizer();

// What node, which follows a newer Unicode, decomposes or reorders and the library leaves alone.
const untouched = points.filter((c) => {
  const text = String.fromCodePoint(c);
  const between = [`a${text}\u0334`, `a\u0345${text}`];
  return text.normalize('NFKD') !== nfkd.normalizeString(text) ||
    between.some((t) => t.normalize('NFD') !== nfd.normalizeString(t));
});

console.log('// Written by tools/record_unicode.js: do not edit.');
console.log('#include "data/tokenizer/unicode_tables.h"\n\nnamespace tessera {\nnamespace {');
print('kLetters', '\\p{L} of regular expressions.', letters);
print('kNumbers', '\\p{N} of regular expressions.', numbers);
print('kDecimals', '\\d of regular expressions.', decimals);
print('kNumeric', 'What the pre-tokenizer Digits takes for a digit.',
  points.filter((c) => digits(`a${String.fromCodePoint(c)}`).length === 2));
print('kWords', '\\w beside an added token that is a single word.',
  points.filter((c) => words(`a${String.fromCodePoint(c)}a`).length === 1));
print('kNotNormalized', 'Newer than the normal forms of the library.', untouched);
console.log(`
}  // namespace

std::span<const CharacterRange> letter_ranges() { return kLetters; }
std::span<const CharacterRange> number_ranges() { return kNumbers; }
std::span<const CharacterRange> decimal_ranges() { return kDecimals; }
std::span<const CharacterRange> numeric_ranges() { return kNumeric; }
std::span<const CharacterRange> word_ranges() { return kWords; }
std::span<const CharacterRange> not_normalized_ranges() { return kNotNormalized; }

}  // namespace tessera`);
