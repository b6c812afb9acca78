import { configure } from '@testing-library/svelte';

// Machines that do much else are slow to show what is waited for.
configure({ asyncUtilTimeout: 20_000 });
// What jsdom lacks and components ask for.
globalThis.matchMedia ??= ((query: string) => ({
  matches: false,
  media: query,
  addEventListener() {},
  removeEventListener() {},
})) as unknown as typeof matchMedia;
globalThis.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
} as unknown as typeof ResizeObserver;
HTMLCanvasElement.prototype.getContext = () => null;
// Files share a document, and begin at an address that says nothing.
history.replaceState(null, '', '#/');
dispatchEvent(new HashChangeEvent('hashchange'));
