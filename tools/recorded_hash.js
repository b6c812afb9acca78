// The hash that src/data/testing/recorded_hash.h computes, of what the reference library gives.
'use strict';

// FNV-1a, 64 bits, of numbers as four bytes, lowest first; lists and texts begin with their length.
class Hash {
  constructor() { this.value = 0xcbf29ce484222325n; }
  byte(b) { this.value = BigInt.asUintN(64, (this.value ^ BigInt(b)) * 0x100000001b3n); }
  number(n) { for (let i = 0; i < 4; ++i) this.byte((n >>> (8 * i)) & 255); }
  list(numbers) { this.number(numbers.length); numbers.forEach((n) => this.number(n)); }
  text(t) { const b = Buffer.from(t, 'utf8'); this.number(b.length); for (const c of b) this.byte(c); }
  hex() { return this.value.toString(16).padStart(16, '0'); }
}

// One for every `chunk` texts: ids with and without special tokens, the decoded text, and offsets.
async function hashes(tokenizer, texts, chunk) {
  const result = [];
  for (let i = 0; i < texts.length; i += chunk) {
    const some = texts.slice(i, i + chunk);
    const whole = await tokenizer.encodeBatch(some, { addSpecialTokens: true });
    const plain = await tokenizer.encodeBatch(some, { addSpecialTokens: false });
    const decoded = await tokenizer.decodeBatch(plain.map((e) => e.getIds()), true);
    const hash = new Hash();
    some.forEach((_, j) => {
      hash.list(whole[j].getIds());
      hash.list(plain[j].getIds());
      hash.text(decoded[j]);
      hash.list(whole[j].getOffsets().flat());
    });
    result.push(hash.hex());
  }
  return result;
}

module.exports = { Hash, hashes };
