// SentencePiece's compiled character map, made from a list of keys and what they become: a little-endian u32 with the
// size of the trie in bytes, a double-array trie (darts-clone's units of 32 bits) and the replacements, each ended by NUL.
// Keys are buffers or texts without NUL; they may be parts of a character.
'use strict';

function trieOf(entries) {
  const root = { children: new Map(), value: -1 };
  for (const [key, value] of entries) {
    let node = root;
    for (const byte of Buffer.from(key)) {
      if (byte === 0) throw new Error('a key has a NUL');
      if (!node.children.has(byte)) node.children.set(byte, { children: new Map(), value: -1 });
      node = node.children.get(byte);
    }
    node.value = value;
  }
  return root;
}

const kLeaf = 1 << 8;
const kFar = 1 << 9;  // the offset is in blocks of 256

// The children of a node at `position` lie at base ^ label, its value at the base itself.
function place(root) {
  const units = new Map([[0, 0]]);
  const bases = new Set();
  let first = 1;  // nothing below is free
  const waiting = [[root, 0]];
  while (waiting.length) {
    const [node, position] = waiting.shift();
    const labels = [...(node.value >= 0 ? [0] : []), ...node.children.keys()];
    while (units.has(first)) ++first;
    let base = first ^ labels[0];
    const fits = () => !bases.has(base) && labels.every((label) => !units.has(base ^ label)) &&
      ((position ^ base) < 1 << 21 || ((position ^ base) & 0xff) === 0);
    for (let slot = first; !fits(); ++slot) base = slot ^ labels[0];
    bases.add(base);
    const offset = position ^ base;
    const isFar = offset >= 1 << 21;
    units.set(position, (units.get(position) | (isFar ? (offset >>> 8) << 10 | kFar : offset << 10) |
      (node.value >= 0 ? kLeaf : 0)) >>> 0);
    for (const label of labels) units.set(base ^ label, label);
    if (node.value >= 0) units.set(base, (node.value | 1 << 31) >>> 0);
    for (const [label, child] of node.children) waiting.push([child, base ^ label]);
  }
  const count = (Math.floor(Math.max(...units.keys()) / 256) + 1) * 256;
  return Array.from({ length: count }, (_, i) => units.get(i) ?? 0);
}

// [[key, replacement]] as base64; equal replacements are kept once.
function charsmap(entries) {
  const starts = new Map();
  let texts = Buffer.alloc(0);
  for (const [, replacement] of entries) {
    if (starts.has(replacement)) continue;
    starts.set(replacement, texts.length);
    texts = Buffer.concat([texts, Buffer.from(`${replacement}\0`)]);
  }
  const units = place(trieOf(entries.map(([key, replacement]) => [key, starts.get(replacement)])));
  const trie = Buffer.alloc(4 + 4 * units.length);
  trie.writeUInt32LE(4 * units.length, 0);
  units.forEach((unit, i) => trie.writeUInt32LE(unit, 4 + 4 * i));
  return Buffer.concat([trie, texts]).toString('base64');
}

module.exports = { charsmap };
