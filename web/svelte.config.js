import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default {
  preprocess: vitePreprocess(),
  compilerOptions: {
    runes: true,
    // A name of its own for the style of each part, short: there are a thousand of them in the page.
    cssHash: ({ css, hash }) => `s${hash(css).slice(0, 5)}`,
  },
};
