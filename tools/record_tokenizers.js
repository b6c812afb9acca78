// Writes tests/data/tokenizers/recorded.json: what the reference library makes of a few thousand odd strings, for
// variants of the tokenizers beside it. Of each variant it keeps hashes, one for every fifty strings.
// Usage: npm install tokenizers (in a folder outside the repository), then
//   NODE_PATH=FOLDER/node_modules node tools/record_tokenizers.js tests/data/tokenizers [COUNT [SEED]]
'use strict';
const { Tokenizer } = require('tokenizers');
const fs = require('fs');
const { charsmap } = require('./charsmap.js');
const { hashes } = require('./recorded_hash.js');

const [, , folder, count = '2000', seed = '1'] = process.argv;
const chunk = 50;

let state = Number(seed) >>> 0;
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);

const parts = [
  '  ', ' ', '\n', '\t', '\r\n', '\u00a0', '\u2003', '\u180e', '\u3000', '\u0085', '\u200b', '\ufeff', "'s", "'S", "'t", "'re",
  "'VE", "'ll", "'ſ", "'", "don't", 'the', 'The', ' world', 'Hello', 'hello', 'ing', 'naïve', 'é', 'e\u0301', '\u0301',
  '\u0327\u0301', '\u0301\u0327', 'ﬁ', '①', '²', '½', 'Ⅷ', '१२३', '12', '123', '1234', '0x1F', '3.14', '日本語', '中文',
  '한국어', '가', '\u1100\u1161\u11a8', '\u1161', 'العربية', 'हिन्दी', 'क्षि', 'ไทย', 'ß', 'İ', 'ı', 'ǅ', 'Å', '\u212b',
  '👩‍👩‍👧', '🙂', '🇩🇪', '\u{1f3fd}', '<s>', '</s>', '<unk>', '<a>', '<b>', '<c>', '<ab>', '<a><b', '<|end|>',
  '<|begin_of_text|>', '<0x41>', '▁', '▁▁', '_', '-', '--', '=', '==', '!', '?!', '...', '/', '\\', '\0', '\u0007',
  '\u{10ffff}', '\u{e0041}', 'a', 'b', 'x', 'xxxxxxxx', 'aaaaaaaaaaaaaaaa', 'for (int i = 0; i < n; ++i) {', 'return x;',
  '}\n\n', '    ', '\n\n\n', ' \n \n', 'Ａb', 'ｆｕｌｌ', '㍿', '\u{1d5a0}', '\ufdfa', '\u2126', '\u{2f800}', '\u0344',
  '\u{1d15e}', '\u09c7\u09be', '\u0958', '\u{11935}\u{11930}', '\ua7f2', '\u32ff', '\u{16ea0}', '\u{105c0}', '\u{11f04}',
  '\u{2ebf0}', '\u{31350}', '\u{1e030}', '\u{10d40}', '\u{11de0}', '\u212a', 'ſs', '\ufb05', '``', "''", '™', '1000000',
];
// What joins to clusters, or does not.
const joining = [
  'a', 'é', 'Ａ', '™', ' ', '\n', '\r', '\r\n', '\0', '\u0001', '\u001e', '\u00ad', '\u0301', '\u0327', '\u0344', '\u20dd',
  '\u200c', '\u200d', '\u200d', '©', '©\u200d', '❤\ufe0f', '🙂', '\u{1f3fd}', '\u{1f1e6}', '\u0600', '\u06dd', '\u0d4e', '\u1100',
  '\u1161', '\u11a8', '가', '각', '\u0903', '\u0e33', 'क', 'त', 'ক', '\u094d', '\u09cd', '\u093c', '\u1039', '\u1000', '\u{11046}',
  '\u{11133}', '\u{11103}', '\u{16d63}', '\u{e0001}', '\u{e0061}', '\u{1e000}', '１', 'ﾞ', '\u3099', 'か', '\u{1d400}', '\u2028',
];
// What must stand side by side to join, each able to show that it did: long clusters are read character by character.
const linked = [
  'क', 'क', '\u094d', '\u094d', 'क\u0301', 'त\u0301', '©', '\u200d', '©\u0301', '\u1100', '\u1161', '\u1161\u0301', '\u11a8\u0301',
  '가\u0301', '각\u0301', '\u200c', '\u0903', '\u0600', '\u0301', 'a',
];

function character() {
  const kind = random();
  if (kind < 0.4) return String.fromCodePoint(32 + below(95));
  if (kind < 0.6) return String.fromCodePoint(below(0x250));
  let code = 0xd800;
  while (code >= 0xd800 && code <= 0xdfff) code = below(kind < 0.85 ? 0x10000 : 0x110000);
  return String.fromCodePoint(code);
}

function text() {
  const length = Math.floor(random() * random() * 24) + 1;
  const kind = random();
  const some = kind < 0.15 ? joining : kind < 0.35 ? linked : parts;
  let made = '';
  for (let i = 0; i < length; ++i) made += some === linked || random() < 0.75 ? some[below(some.length)] : character();
  if (random() < 0.02) made += parts[below(parts.length)].repeat(below(60));
  return made;
}

const split = (regex, behavior = 'Isolated', invert = false) =>
  ({ type: 'Split', pattern: { Regex: regex }, behavior, invert });
const byteLevel = (add_prefix_space = false, use_regex = false) =>
  ({ type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex });
const sequence = (...pretokenizers) => ({ type: 'Sequence', pretokenizers });
const token = (content, flags) =>
  ({ id: 0, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...flags });
const added = { '/added_tokens': [
  token('<a>', { lstrip: true }), token('<b>', { rstrip: true, special: true }), token('<c>', { single_word: true }),
  token('the', { normalized: true }), token(' é', { normalized: true }), token('<a><b', {}), token('Ａb', { normalized: true }),
  token('<ab>', { lstrip: true, rstrip: true, single_word: true, normalized: true, special: true }),
] };
const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const llama3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" +
  '|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const cl100k = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]" +
  '|\\s+(?!\\S)|\\s+';
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]';
const lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';
const ends = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
const o200k = `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${ends}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${ends}` +
  '|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const trim = (add_prefix_space) => ({ type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex: true });
const bytes = Array.from({ length: 256 }, (_, i) => [`<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`, -20]);

// A map in the way of nmt_nfkc, of those characters that the texts have, and one that shows every cluster: what begins
// with a byte becomes nothing, one letter or several.
const range = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => String.fromCodePoint(first + i));
const compatible = [...range(0xa0, 0x3ff), ...range(0x2000, 0x23ff), ...range(0x2460, 0x2473), ...range(0x3000, 0x30ff),
  ...range(0x3300, 0x337f), ...range(0xfb00, 0xfb06), '\ufdfa', ...range(0xff01, 0xff9f), ...range(0x1d400, 0x1d420), '\u{1d5a0}',
  '\u0958', '\u0e33', '\u{2f800}', ...'aeiouAEIOUnc'.split('').flatMap((c) => [...'\u0300\u0301\u0308\u0327'].map((m) => c + m))];
const charsmaps = {
  nfkc: charsmap([...compatible.map((c) => [c, c.normalize('NFKC')]).filter(([from, to]) => from !== to),
    ...[...range(1, 8), '\v', ...range(0xe, 0x1f), '\x7f', '\u00ad', '\u{e0001}'].map((c) => [c, '']),
    ...['\t', '\n', '\r', '\r\n', '\u200b', '\ufeff', '\u1680'].map((c) => [c, ' '])]),
  clusters: charsmap(Array.from({ length: 255 }, (_, i) => i + 1).filter((byte) => byte % 5 !== 3).map((byte) =>
    [Buffer.from([byte]), ['a', ' ', 'éa', '', 'the', '日', '▁in', 'b'][byte % 8]])),
};
const precompiled = { type: 'Precompiled', precompiled_charsmap: '' };
const normalizers = (...list) => ({ type: 'Sequence', normalizers: list });
const replaced = (pattern, content) => ({ type: 'Replace', pattern, content });
const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true };
const words = sequence({ type: 'WhitespaceSplit' }, metaspace);
const ending = (...single) => ({ type: 'TemplateProcessing', single, pair: [], special_tokens: {
  '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] }, '</s>': { id: '</s>', ids: [2], tokens: ['</s>'] } } });
const start = { SpecialToken: { id: '<s>', type_id: 0 } };
const textA = { Sequence: { id: 'A', type_id: 0 } };
const end = { SpecialToken: { id: '</s>', type_id: 0 } };
const inNormalizers = (i) => `/normalizer/normalizers/${i}/precompiled_charsmap`;
const accents = normalizers({ type: 'NFD' }, { type: 'StripAccents' }, { type: 'Lowercase' });
const falcon = sequence({ type: 'Punctuation', behavior: 'Contiguous' }, byteLevel(false, true),
  { type: 'Digits', individual_digits: false }, split('[0-9][0-9][0-9]'));
const deepseek = sequence(split('\\p{N}{1,3}'), split('[一-龥\u3040-ゟ゠-ヿ]+'), split('[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]' +
  '[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'), byteLevel());

// Name, base, what is replaced, what is appended, which maps are where.
const variants = [
  ...['gpt2', 'llama3', 'qwen2', 'llama2', 'metaspace', 'unigram'].flatMap((kind) =>
    [[kind, kind, {}, {}], [`${kind}-added`, kind, {}, added]]),
  ['gpt2-prefix', 'gpt2', { '/pre_tokenizer': byteLevel(true, true), '/post_processor': trim(true) }, {}],
  ['gpt2-trim', 'gpt2', { '/post_processor': trim(false) }, {}],
  ['gpt2-one-piece', 'gpt2', { '/pre_tokenizer': byteLevel(false, false) }, {}],
  ['gpt2-ignore-merges', 'gpt2', { '/model/ignore_merges': true }, {}],
  ['gpt2-roberta', 'gpt2', { '/post_processor': { type: 'RobertaProcessing', sep: ['<|end|>', 1],
    cls: ['<|begin_of_text|>', 0], trim_offsets: true, add_prefix_space: false } }, {}],
  ['gpt2-regex', 'gpt2', { '/pre_tokenizer': sequence(split(`(?:${gpt2})`), byteLevel()) }, {}],
  ['gpt2-words', 'gpt2', { '/pre_tokenizer': sequence(split('\\w+', 'Removed', true), byteLevel()) }, {}],
  ['gpt2-white-space', 'gpt2', { '/pre_tokenizer': sequence({ type: 'WhitespaceSplit' }, byteLevel(true)) }, {}],
  ['gpt2-many-splits', 'gpt2', { '/pre_tokenizer': sequence(split('[\\r\\n]'), split('\\s?\\p{L}+'), split('\\s?\\p{P}+'),
    split('[一-龥ࠀ-一가-퟿]+'), { type: 'Digits', individual_digits: true }, byteLevel()) }, {}],
  ...['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'].map((behavior, i) =>
    [`gpt2-${behavior}`, 'gpt2', { '/pre_tokenizer': sequence(
      { type: 'Split', pattern: i % 2 ? { String: ' ' } : { Regex: '\\s+|\\bt|\\d' }, behavior, invert: i > 2 },
      { type: 'Digits', individual_digits: i % 2 === 0 }, byteLevel(i === 1, true)) }, {}]),
  ['llama3-merges', 'llama3', { '/model/ignore_merges': false }, {}],
  ['llama3-regex', 'llama3', { '/pre_tokenizer': sequence(split(`(?:${llama3})`), byteLevel()) }, {}],
  ['llama3-cl100k', 'llama3', { '/pre_tokenizer': sequence(split(cl100k), byteLevel()) }, {}],
  ['llama3-o200k', 'llama3', { '/pre_tokenizer': sequence(split(o200k), byteLevel()) }, {}],
  ['qwen2-lower', 'qwen2', { '/normalizer': { type: 'Sequence',
    normalizers: [{ type: 'NFKD' }, { type: 'Lowercase' }, { type: 'NFC' }] } }, {}],
  ['qwen2-strip', 'qwen2', { '/normalizer': { type: 'Sequence', normalizers: [
    { type: 'Strip', strip_left: true, strip_right: true }, { type: 'Replace', pattern: { Regex: ' {2,}' }, content: ' ' }] } }, {}],
  ['llama2-no-fuse', 'llama2', { '/model/fuse_unk': false, '/model/byte_fallback': false }, {}],
  ['llama2-fuse', 'llama2', { '/model/byte_fallback': false }, {}],
  ['llama2-no-unk', 'llama2', { '/model/byte_fallback': false, '/model/unk_token': null }, {}],
  ['llama2-split', 'llama2', { '/normalizer': { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
    '/pre_tokenizer': { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false } }, {}],
  ['metaspace-always', 'metaspace', { '/pre_tokenizer/prepend_scheme': 'always' }, {}],
  ['metaspace-split', 'metaspace', { '/pre_tokenizer/split': true }, added],
  ...['NFC', 'NFD', 'NFKD'].map((type) => [`unigram-${type}`, 'unigram', { '/normalizer': { type } }, {}]),
  ['unigram-first', 'unigram', { '/pre_tokenizer/prepend_scheme': 'first', '/decoder/prepend_scheme': 'first' }, added],
  ['unigram-never', 'unigram', { '/pre_tokenizer/prepend_scheme': 'never', '/pre_tokenizer/split': false,
    '/decoder/prepend_scheme': 'never' }, {}],
  ['unigram-bytes', 'unigram', { '/model/byte_fallback': true, '/decoder': { type: 'Sequence', decoders: [{ type: 'ByteFallback' },
    { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true }] } }, { '/model/vocab': bytes }],
  ['unigram-precompiled', 'unigram', { '/normalizer': precompiled }, {}, { '/normalizer/precompiled_charsmap': 'nfkc' }],
  ['unigram-clusters', 'unigram', { '/normalizer': precompiled }, {}, { '/normalizer/precompiled_charsmap': 'clusters' }],
  ['metaspace-clusters', 'metaspace', { '/normalizer': precompiled }, added, { '/normalizer/precompiled_charsmap': 'clusters' }],
  ['gpt2-precompiled', 'gpt2', { '/normalizer': precompiled }, {}, { '/normalizer/precompiled_charsmap': 'nfkc' }],
  ['t5', 'unigram', { '/normalizer': precompiled, '/pre_tokenizer': words, '/post_processor': ending(textA, end) }, {},
    { '/normalizer/precompiled_charsmap': 'nfkc' }],
  ['t5-strip', 'unigram', { '/normalizer': normalizers(precompiled, { type: 'Strip', strip_left: false, strip_right: true },
    replaced({ Regex: ' {2,}' }, '▁')), '/pre_tokenizer': metaspace, '/post_processor': ending(textA, end) }, {},
  { [inNormalizers(0)]: 'nfkc' }],
  ['xlm-r', 'unigram', { '/normalizer': normalizers(precompiled, replaced({ Regex: ' {2,}' }, ' ')), '/pre_tokenizer': words,
    '/post_processor': ending(start, textA, end) }, added, { [inNormalizers(0)]: 'nfkc' }],
  ['albert', 'unigram', { '/normalizer': normalizers(replaced({ String: '``' }, '"'), replaced({ String: "''" }, '"'), { type: 'NFKD' },
    { type: 'StripAccents' }, { type: 'Lowercase' }, precompiled), '/pre_tokenizer': words }, added, { [inNormalizers(5)]: 'nfkc' }],
  ['unigram-nmt', 'unigram', { '/normalizer': normalizers({ type: 'Nmt' }, { type: 'NFKC' }) }, added],
  ['qwen2-accents', 'qwen2', { '/normalizer': accents }, added],
  ['unigram-accents', 'unigram', { '/normalizer': { type: 'StripAccents' } }, {}],
  ['gpt2-falcon', 'gpt2', { '/pre_tokenizer': falcon }, {}],
  ['gpt2-neox', 'gpt2', { '/normalizer': { type: 'NFC' }, '/post_processor': trim(false) }, { '/added_tokens': [
    token('  ', { normalized: true }), token('    ', { normalized: true }), token('        ', { normalized: true })] }],
  ['llama3-phi4', 'llama3', { '/pre_tokenizer': sequence(split(cl100k, 'Removed', true), byteLevel()) }, {}],
  ['gpt2-deepseek', 'gpt2', { '/pre_tokenizer': deepseek }, {}],
  ['gpt2-starcoder', 'gpt2', { '/pre_tokenizer': sequence({ type: 'Digits', individual_digits: true }, byteLevel(false, true)) }, {}],
  ['gpt2-whitespace', 'gpt2', { '/pre_tokenizer': sequence({ type: 'Whitespace' }, byteLevel()) }, {}],
  ['gpt2-bert', 'gpt2', { '/pre_tokenizer': sequence({ type: 'BertPreTokenizer' }, byteLevel()) }, {}],
  ['gpt2-fixed', 'gpt2', { '/pre_tokenizer': sequence({ type: 'FixedLength', length: 3 }, byteLevel()) }, {}],
  // Combinations in which random ones differed once.
  ['metaspace-strip', 'metaspace', { '/normalizer': { type: 'Strip', strip_left: true, strip_right: false } }, {}],
  ['metaspace-strip-added', 'metaspace', { '/normalizer': normalizers({ type: 'Strip', strip_left: true, strip_right: true }, { type: 'NFC' }) }, added],
  ['gpt2-blank-tokens', 'gpt2', {}, { '/added_tokens': [token('\n', { lstrip: true, rstrip: true }), token(' ', { rstrip: true }),
    token('a', { lstrip: true, rstrip: true, normalized: true })] }],
  ['llama2-token-twice', 'llama2', {}, { '/added_tokens': [token('The', { normalized: true, special: true }), token('The', {}),
    token('<a>', { normalized: true }), token('<a>', { special: true, rstrip: true })] }],
  ['gpt2-word-classes', 'gpt2', { '/pre_tokenizer': sequence(split('[\\w]+|[^\\w\\s]+'), split('\\w\\b'), byteLevel()) }, {}],
  ['unigram-empty-split', 'unigram', { '/pre_tokenizer': sequence({ type: 'Split', pattern: { String: '' }, behavior: 'Isolated',
    invert: false }, metaspace) }, {}],
  ['unigram-punctuation', 'unigram', { '/pre_tokenizer': sequence({ type: 'Punctuation', behavior: 'MergedWithPrevious' },
    metaspace) }, {}],
];

function place(document, pointer) {
  const names = pointer.slice(1).split('/');
  let parent = document;
  for (const name of names.slice(0, -1)) parent = parent[name];
  return [parent, names[names.length - 1]];
}

function made(base, replace, append, maps) {
  const document = JSON.parse(fs.readFileSync(`${folder}/${base}/tokenizer.json`, 'utf8'));
  for (const [pointer, value] of Object.entries(replace)) {
    const [parent, name] = place(document, pointer);
    parent[name] = value;
  }
  for (const [pointer, list] of Object.entries(append)) {
    const [parent, name] = place(document, pointer);
    parent[name] = parent[name].concat(list);
  }
  for (const [pointer, map] of Object.entries(maps)) {
    const [parent, name] = place(document, pointer);
    parent[name] = charsmaps[map];
  }
  return document;
}

(async () => {
  const texts = [];
  while (texts.length < Number(count)) texts.push(text());
  const recorded = [];
  for (const [name, base, replace, append, maps = {}] of variants) {
    const tokenizer = Tokenizer.fromString(JSON.stringify(made(base, replace, append, maps)));
    recorded.push({ name, base, replace, append, maps, hashes: await hashes(tokenizer, texts, chunk) });
  }
  const lines = [
    `{"library": "tokenizers 0.23.2", "chunk": ${chunk},`,
    `"texts": [\n${texts.map((t) => JSON.stringify(t)).join(',\n')}],`,
    `"charsmaps": ${JSON.stringify(charsmaps)},`,
    `"variants": [\n${recorded.map((v) => JSON.stringify(v)).join(',\n')}]}`,
  ];
  fs.writeFileSync(`${folder}/recorded.json`, `${lines.join('\n')}\n`);
})();
