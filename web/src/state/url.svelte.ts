// All state of a page lies in the hash of its address: #/learn/collectives?ranks=8. A link shows
// what its sender saw.

export interface Place {
  place: string; // learn, plan, inside, watch
  rest: string; // the lesson, the tab
}

function read(): Place & { params: Record<string, string> } {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [place = '', ...rest] = path.split('/');
  return {
    place: place || 'plan',
    rest: rest.map(decodeURIComponent).join('/'),
    params: Object.fromEntries(new URLSearchParams(query)),
  };
}

// To write an address costs a browser several milliseconds: a slider that moves writes one when it rests.
const kRestMs = 120;

class Url {
  private now = $state.raw(read());
  private later: ReturnType<typeof setTimeout> | undefined; // an address is to be written

  constructor() {
    addEventListener('hashchange', () => {
      clearTimeout(this.later); // what was to be written is of the page before
      this.later = undefined;
      this.now = read();
    });
    addEventListener('pagehide', () => this.write());
  }
  get place() {
    return this.now.place;
  }
  get rest() {
    return this.now.rest;
  }
  param(name: string): string | undefined {
    return this.now.params[name];
  }
  get params(): Readonly<Record<string, string>> {
    return this.now.params;
  }
  // undefined takes it out: what is at its default is not in the address.
  set(changes: Record<string, string | undefined>) {
    const params = { ...this.now.params };
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined) delete params[name];
      else params[name] = value;
    }
    this.now = { ...this.now, params };
    clearTimeout(this.later);
    this.later = setTimeout(() => this.write(), kRestMs);
  }
  private write() {
    if (this.later === undefined) return;
    clearTimeout(this.later);
    this.later = undefined;
    history.replaceState(null, '', hrefOf(this.now.place, this.now.rest, this.now.params));
  }
  // The whole address, to be copied.
  get link(): string {
    this.write();
    return location.href;
  }
  go(place: string, rest = '', params: Record<string, string> = {}) {
    location.hash = hrefOf(place, rest, params);
  }
}

export function hrefOf(place: string, rest = '', params: Record<string, string> = {}): string {
  const query = new URLSearchParams(params).toString();
  const path = rest ? `${place}/${rest.split('/').map(encodeURIComponent).join('/')}` : place;
  return `#/${path}${query ? `?${query}` : ''}`;
}

export const url = new Url();

// A value of the page that its address keeps. In a component: const ranks = numberParam('ranks', 4);
// then ranks.value, also as bind:value={ranks.value}.
export interface Param<T> {
  value: T;
  readonly initial: T;
}
function param<T>(name: string, initial: T, parse: (text: string) => T | undefined): Param<T> {
  // Who reads this is not told about changes of the others.
  const text = $derived(url.param(name));
  return {
    initial,
    get value() {
      return (text === undefined ? undefined : parse(text)) ?? initial;
    },
    set value(value: T) {
      url.set({ [name]: value === initial ? undefined : String(value) });
    },
  };
}
export function numberParam(name: string, initial: number): Param<number> {
  return param(name, initial, (text) => (Number.isFinite(Number(text)) ? Number(text) : undefined));
}
export function textParam<T extends string>(name: string, initial: T, among?: readonly T[]): Param<T> {
  return param<T>(name, initial, (text) => (!among || among.includes(text as T) ? (text as T) : undefined));
}
export function switchParam(name: string, initial: boolean): Param<boolean> {
  return param(name, initial, (text) => text === 'true');
}
// All of a page back to what it showed first.
export function reset(names: string[]) {
  url.set(Object.fromEntries(names.map((name) => [name, undefined])));
}
