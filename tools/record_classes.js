// Writes tests/data/tokenizers/classes.json: which characters the regular expressions of the reference library match, alone, in
// classes and in negated classes. Of each pattern it keeps the hash of the list of characters.
// Usage: npm install tokenizers (in a folder outside the repository), then
//   NODE_PATH=FOLDER/node_modules node tools/record_classes.js tests/data/tokenizers
'use strict';
const { Tokenizer } = require('tokenizers');
const fs = require('fs');
const { Hash } = require('./recorded_hash.js');

const [, , folder] = process.argv;
const patterns = [
  '\\w', '\\W', '[\\w]', '[^\\w]', '[\\w-]', '[^\\w\\s]', '[a[\\w]]', '\\s', '\\S', '[\\s]', '[^\\s]', '[\\S]', '[^\\S]', '[\\S\\n]', '\\d', '\\D', '[\\d]',
  '[^\\d]', '(?<=a)\\b', '(?<=-)\\b', '(?<=a)\\B', '(?<=-)\\B', '\\p{L}', '[\\p{L}]', '[^\\p{L}]', '\\P{L}', '\\p{^L}', '\\p{N}', '[\\p{N}]',
  '[^\\p{N}]', '\\P{N}', '\\p{Nd}', '[\\p{Nd}]', '[^\\p{Nd}]', '[^\\s\\p{L}\\p{N}]', '[^\\r\\n\\p{L}\\p{N}]', '[^\\r\\n\\p{L}\\d]', '.', '(?i:s)', '(?i:k)', '(?i:[a-z])',
  '(?i:é)', '(?i:ß)', '(?i:σ)', '[a-z]', '[\\x00-\\x7f]', '[^\\x00-\\x7f]', '\\p{Zs}',
  // Negated sets in classes, classes in classes, and both sides of '&&'.
  '[\\D]', '[^\\D]', '[\\W]', '[^\\W]', '[\\P{L}]', '[^\\P{L}]', '[\\P{N}]', '[\\p{^Lu}]', '[a\\D]', '[^a\\P{L}]', '[\\P{L}\\P{N}]', '[^\\P{L}\\P{Lu}]',
  '[a-z[^a]]', '[^a-z[^k-p]]', '[[^\\p{L}]\\p{Lu}]', '[[\\p{L}][\\p{N}]]', '[a-z&&[^aeiou]]', '[^a-z&&[^aeiou]]', '[\\p{L}&&[^\\p{Han}]]', '[\\p{L}\\p{N}&&\\p{^Lu}&&[^b]]',
  '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]', '[]a]', '[^]a]', '[\\d\\-x]', '[[a-c]-x]', '[a-c&&b-]', '\\h', '\\H', '[\\h]', '[\\H]',
  ...('LC L M N P S Z C Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn ' +
    'Letter Uppercase_Letter lowercase-letter Number Punctuation Other Alpha Alphabetic Upper Lower Alnum Digit Space Punct Word XDigit Blank Cntrl ASCII ' +
    'Arabic Armenian Bengali Bopomofo Common Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew Hiragana Inherited ' +
    'Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Sinhala Tamil Telugu Thai Tibetan').split(' ').map((name) => `\\p{${name}}`),
  ...'alnum alpha ascii blank cntrl digit lower punct space upper xdigit word'.split(' ').flatMap((name) => [`[[:${name}:]]`, `[x[:^${name}:]]`]),
];
// `limit` and `step`: all characters below the one, and every so manyth above.
const limit = 0x3400;
const step = 37;

const shell = (normalizer) => JSON.stringify({ version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer, pre_tokenizer: null, post_processor: null,
  decoder: null, model: { type: 'BPE', vocab: { a: 0 }, merges: [] } });

const lists = patterns.map((pattern) => {
  const normalizer = Tokenizer.fromString(shell({ type: 'Replace', pattern: { Regex: pattern }, content: '<matched>' })).getNormalizer();
  const before = pattern.startsWith('(?<=') ? pattern[4] : '';
  const hash = new Hash();
  const found = [];
  for (let code = 0; code < 0x110000; code += code < limit ? 1 : step) {
    if (code >= 0xd800 && code < 0xe000) continue;
    if (normalizer.normalizeString(before + String.fromCodePoint(code)).includes('<matched>')) found.push(code);
  }
  hash.list(found);
  return JSON.stringify({ pattern, count: found.length, hash: hash.hex() });
});
fs.writeFileSync(`${folder}/classes.json`,
  `{"library": "tokenizers 0.23.2", "limit": ${limit}, "step": ${step}, "patterns": [\n${lists.join(',\n')}]}\n`);
