// The core's formulas ("2 (N-1)/N X / B") as MathML. A fraction is drawn where a factor stands over
// another; everything else stays in a line.

import { count, kWrittenOut } from '../format/format';

type Token = { kind: 'number' | 'word' | 'operator' | 'open' | 'close'; text: string };

const escape = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern =
    /\s*(?:(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?:[KMBT](?![A-Za-z]))?)|(ZeRO-\d|[A-Za-zΔµα%_][A-Za-z0-9µα%_]*(?:\/(?:s|byte)\b)?)|(\()|(\))|(.))/gu;
  for (const [, number, word, open, close, operator] of text.matchAll(pattern)) {
    if (number !== undefined) tokens.push({ kind: 'number', text: number });
    else if (word !== undefined) tokens.push({ kind: 'word', text: word });
    else if (open !== undefined) tokens.push({ kind: 'open', text: '(' });
    else if (close !== undefined) tokens.push({ kind: 'close', text: ')' });
    else if (operator !== undefined && operator.trim() !== '')
      tokens.push({ kind: 'operator', text: operator });
  }
  return tokens;
}

const kSigns: Record<string, string> = { '*': '·', '-': '−' };
const operator = (text: string, attributes = '') =>
  `<mo stretchy="false"${attributes}>${escape(kSigns[text] ?? text)}</mo>`;
// 1.099e+04 as 10,990, 3.645e+25 as 3.645 · 10 to the 25.
function numberOf(text: string): string {
  const [digits = '', power] = text.split('e').map((part) => part.replace(/^\+/, ''));
  if (power === undefined) return `<mn>${escape(text)}</mn>`;
  const exponent = Number(power);
  if (exponent >= 0 && exponent <= kWrittenOut) return `<mn>${count(Number(text))}</mn>`;
  return `<mrow><mn>${escape(digits)}</mn>${operator('*')}<msup><mn>10</mn><mn>${String(exponent).replace('-', '−')}</mn></msup></mrow>`;
}

class Reader {
  private at = 0;
  private flat = false; // in an exponent: a slash stays a slash
  // Formulas of rings, with N ranks, write a for the latency; elsewhere a counts heads.
  private readonly rings: boolean;
  constructor(private readonly tokens: Token[]) {
    this.rings = tokens.some((token) => token.text === 'N');
  }

  // Up to a closing parenthesis or the end.
  row(): string {
    let out = '';
    while (this.at < this.tokens.length && this.tokens[this.at]!.kind !== 'close') out += this.quotient();
    return out;
  }

  // One power, over the next where a slash follows.
  private quotient(): string {
    let left = this.power();
    while (this.takes('/'))
      if (this.flat) left += operator('/') + this.power();
      else left = `<mfrac><mrow>${bare(left)}</mrow><mrow>${bare(this.power())}</mrow></mfrac>`;
    return left;
  }

  private power(): string {
    const base = this.factor();
    if (!this.takes('^')) return base;
    this.flat = true;
    const power = bare(this.factor());
    this.flat = false;
    return `<msup><mrow>${base}</mrow><mrow>${power}</mrow></msup>`;
  }

  // Steps over the sign where a factor follows it.
  private takes(sign: string): boolean {
    const next = this.tokens[this.at + 1];
    const here = this.tokens[this.at];
    if (here?.kind !== 'operator' || here.text !== sign) return false;
    if (!next || next.kind === 'operator' || next.kind === 'close') return false;
    ++this.at;
    return true;
  }

  // Between a word and what it belongs to.
  private space(): string {
    const next = this.tokens[this.at];
    return next && next.kind !== 'operator' && next.kind !== 'close' ? '&nbsp;' : '';
  }

  private factor(): string {
    const token = this.tokens[this.at++]!;
    switch (token.kind) {
      case 'number': {
        // "35 GB" stays together, so that a slash takes both.
        const unit = this.tokens[this.at];
        const after = this.tokens[this.at + 1];
        // In "34 s b" and "34 s/k" s is a length, in "= 34 s" seconds.
        const seconds =
          unit?.text === 's' && !/^(word|number|open)$/.test(after?.kind ?? '') && after?.text !== '/';
        const hours = unit?.text === 'h' && after === undefined; // the result; in formulas a width
        const measures = seconds || hours || unit?.text === '%' || (unit?.text.length ?? 0) > 1;
        if (unit?.kind === 'word' && measures && !/_/.test(unit.text)) {
          ++this.at;
          return `<mrow>${numberOf(token.text)}<mtext>&nbsp;${escape(unit.text)}</mtext></mrow>`;
        }
        return numberOf(token.text);
      }
      case 'word':
        if (token.text === 'sqrt' && this.tokens[this.at]?.kind === 'open')
          return `<msqrt>${bare(this.factor())}</msqrt>`;
        return token.text.length === 1
          ? `<mi>${escape(token.text === 'a' && this.rings ? 'α' : token.text)}</mi>`
          : `<mtext>${this.tokens[this.at - 2]?.text.match(/^\p{L}$/u) ? '&nbsp;' : ''}${escape(token.text.replaceAll('_', ' '))}${this.space()}</mtext>`;
      case 'open': {
        const inside = this.row();
        ++this.at; // the closing one
        const [open, close] = inside.includes('<mfrac') ? [kTallOpen, kTallClose] : [kOpen, kClose];
        return `${open}${inside}${close}`;
      }
      default: {
        // After another sign a minus belongs to what follows it.
        const before = this.tokens[this.at - 2];
        const signs = /^[-−]$/.test(token.text) && (before?.kind === 'operator' || before?.kind === 'open');
        return operator(token.text, signs ? ' form="prefix"' : '');
      }
    }
  }
}

const kOpen = '<mo stretchy="false">(</mo>';
const kClose = '<mo stretchy="false">)</mo>';
// Around fractions they are as high as these.
const kTallOpen = '<mo>(</mo>';
const kTallClose = '<mo>)</mo>';
// Parentheses that a fraction or an exponent makes needless.
function bare(math: string): string {
  const tall = math.startsWith(kTallOpen) && math.endsWith(kTallClose);
  if (!tall && !(math.startsWith(kOpen) && math.endsWith(kClose))) return math;
  const inside = tall
    ? math.slice(kTallOpen.length, -kTallClose.length)
    : math.slice(kOpen.length, -kClose.length);
  let depth = 0; // below zero: the first and the last are not a pair
  for (const [sign] of inside.matchAll(/[()](?=<)/g)) if ((depth += sign === '(' ? 1 : -1) < 0) return math;
  return inside;
}

export function mathOf(text: string): string {
  const row = new Reader(tokensOf(text)).row();
  // A sign at the beginning stands between what is left of it and what follows.
  const spaced = row.replace(/^<mo (?=[^>]+>[^(])/, '<mo form="infix" ');
  return `<math display="block"><mrow>${spaced}</mrow></math>`;
}

// "= 2 * (4 + 1) = 10" as "= 2", "* (4 + 1)", "= 10": where a line may break.
export function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  let depth = 0;
  for (const part of text.split(/ (?=[*+=] )/)) {
    if (depth > 0) pieces[pieces.length - 1] += ` ${part}`;
    else pieces.push(part);
    depth += part.split('(').length - part.split(')').length;
  }
  return pieces;
}
