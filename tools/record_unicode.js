// Writes tables of characters into src/data/tokenizer/unicode, the reference library's, asked one by one: which it takes
// for digits and word characters, and which it does not normalize (unicode_tables.cc), marks and punctuation
// (mark_tables.cc), what the properties of its patterns hold (letter_tables.cc, category_tables.cc, script_tables.cc), and
// how characters join to clusters (grapheme_tables.cc). Its parts follow different versions of Unicode (regular
// expressions 16, added tokens 16, digits and clusters 17, normal forms and marks 9), so no one
// version's tables would do.
// Usage: npm install tokenizers (in a folder outside the repository), then
//   NODE_PATH=FOLDER/node_modules node tools/record_unicode.js src/data/tokenizer/unicode
'use strict';
const { Tokenizer } = require('tokenizers');
const fs = require('fs');
const { charsmap } = require('./charsmap.js');

const [, , folder] = process.argv;

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

function table(name, comment, type, words) {
  const lines = [];
  let line = '   ';
  for (const word of words) {
    if (line.length + 1 + word.length > 100) {
      lines.push(line);
      line = '   ';
    }
    line += ` ${word}`;
  }
  return `\n// ${comment}\nconstexpr ${type} ${name}[] = {\n${lines.concat(line).join('\n')}\n};`;
}

const hex = (c) => `0x${c.toString(16)}`;
const rangesTable = (name, comment, list) =>
  table(name, comment, 'CharacterRange', ranges(list).map(([a, b]) => `{${hex(a)}, ${hex(b)}},`));

// One file: tables, and the functions that give them, [function, table].
function write(file, header, type, tables, functions) {
  const ends = functions.map(([f, t]) => `std::span<const ${type}> ${f}() { return ${t}; }`);
  fs.writeFileSync(`${folder}/${file}`, [
    '// Written by tools/record_unicode.js: do not edit.', `#include "data/tokenizer/unicode/${header}"\n`,
    'namespace tessera {', 'namespace {', ...tables, '\n}  // namespace\n', ...ends, '\n}  // namespace tessera\n'].join('\n'));
}

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

write('unicode_tables.cc', 'unicode_tables.h', 'CharacterRange', [
  rangesTable('kNumeric', 'What the pre-tokenizer Digits takes for a digit.',
    points.filter((c) => digits(`a${String.fromCodePoint(c)}`).length === 2)),
  rangesTable('kWords', '\\w beside an added token that is a single word.',
    points.filter((c) => words(`a${String.fromCodePoint(c)}a`).length === 1)),
  rangesTable('kNotNormalized', 'Newer than the normal forms of the library.', untouched),
], [['numeric_ranges', 'kNumeric'], ['word_ranges', 'kWords'], ['not_normalized_ranges', 'kNotNormalized']]);

const withoutMarks = make({ normalizer: { type: 'StripAccents' } }).getNormalizer();
const punctuation = pieces('Punctuation', { behavior: 'Isolated' });
write('mark_tables.cc', 'unicode_tables.h', 'CharacterRange', [
  rangesTable('kMarks', 'What the normalizer StripAccents leaves out.',
    points.filter((c) => withoutMarks.normalizeString(`a${String.fromCodePoint(c)}`) === 'a')),
  rangesTable('kPunctuation', 'What the pre-tokenizer Punctuation cuts out.',
    points.filter((c) => punctuation(`a${String.fromCodePoint(c)}a`).length === 3)),
], [['mark_ranges', 'kMarks'], ['punctuation_ranges', 'kPunctuation']]);

// General categories, scripts, and what some properties have beside categories: "+Alpha" is what \p{Alpha} has and none
// of the categories after it.
const categories = ('Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co').split(' ');
const scripts = ('Arabic Armenian Bengali Bopomofo Common Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew ' +
  'Hiragana Inherited Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Sinhala Tamil Telugu Thai Tibetan').split(' ');
const beside = { Alpha: 'Lu Ll Lt Lm Lo Nl', Upper: 'Lu', Lower: 'Ll', Space: '', Blank: '', XDigit: '', ASCII: '' };
const held = Object.fromEntries([...categories, ...scripts].map((name) => [name, matching(`\\p{${name}}`)]));
for (const [name, parts] of Object.entries(beside)) {
  const known = new Set(parts.split(' ').flatMap((part) => held[part] ?? []));
  held[`+${name}`] = matching(`\\p{${name}}`).filter((c) => !known.has(c));
}
const tableOf = (name) => `k${name.replace('+', 'Also')}`;
function writeNamed(file, functionName, names) {
  write(file, 'unicode_tables.h', 'NamedRanges', [
    ...names.map((name) => rangesTable(tableOf(name), `${name}.`, held[name])),
    `\nconstexpr NamedRanges kAll[] = {\n${names.map((name) => `{"${name}", ${tableOf(name)}},`).join('\n')}\n};`,
  ], [[functionName, 'kAll']]);
}
const letters = categories.filter((name) => name.startsWith('L'));
writeNamed('letter_tables.cc', 'letter_categories', letters);
writeNamed('category_tables.cc', 'other_categories', categories.filter((name) => !letters.includes(name)));
writeNamed('script_tables.cc', 'scripts_and_more', Object.keys(held).filter((name) => !categories.includes(name)));

// How many clusters there are in a text, as Precompiled cuts it: a map of all first bytes makes one letter of every
// cluster of up to five bytes, and one of every character of a longer one. So a border is seen beside a short cluster.
const everyByte = charsmap(Array.from({ length: 255 }, (_, i) => [Buffer.from([i + 1]), 'X']));
const clusters = make({ normalizer: { type: 'Precompiled', precompiled_charsmap: everyByte } }).getNormalizer();
const count = (text) => clusters.normalizeString(text).length;

// The names of enum class ClusterKind (grapheme_tables.h).
function clusterKind(c) {
  const text = String.fromCodePoint(c);
  if (c === 0 || c === 0xd || c === 0xa || c === 0x200c || c === 0x200d) return null;  // by name
  if (c >= 0x1f1e6 && c <= 0x1f1ff) return null;  // regional indicators: a pair is never short
  if (c >= 0xac00 && c <= 0xd7a3) return null;  // syllables of Hangul: by their number
  if (count(`${text}\u0301\u0301`) === 2) return 'kControl';
  if (count(`a${text}`) === 1) {
    if (count(`क${text}क\u0301`) === 4) return 'kLinker';
    return count(`©${text}\u200d©\u0301`) === 5 ? 'kExtend' : 'kSpacingMark';
  }
  if (count(`${text}a`) === 1) return 'kPrepend';
  if (count(`${text}\u200d©\u0301`) === 4) return 'kPictographic';
  if (count(`${text}\u094dक\u0301`) === 4) return 'kConsonant';
  const beforeVowel = count(`${text}\u1161\u0301`) === 3;
  const beforeTrailing = count(`${text}\u11a8\u0301`) === 3;
  if (beforeTrailing) return beforeVowel ? 'kVowel' : 'kTrailing';
  return beforeVowel ? 'kLeading' : null;
}

const kinds = ['kControl', 'kExtend', 'kSpacingMark', 'kPrepend', 'kLeading', 'kVowel', 'kTrailing', 'kPictographic',
  'kConsonant', 'kLinker'];
const members = Object.fromEntries(kinds.map((kind) => [kind, []]));
for (const c of points) members[clusterKind(c)]?.push(c);
const clusterTable = 'constexpr ClusterRanges kClusters[] = {\n' +
  `${kinds.map((kind) => `{ClusterKind::${kind}, ${kind}},`).join('\n')}\n};`;
write('grapheme_tables.cc', 'grapheme_tables.h', 'ClusterRanges', [
  ...kinds.map((kind) => rangesTable(kind, `ClusterKind::${kind}.`, members[kind])), `\n${clusterTable}`,
], [['cluster_ranges', 'kClusters']]);
