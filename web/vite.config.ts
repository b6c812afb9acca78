import { svelte, vitePreprocess } from '@sveltejs/vite-plugin-svelte';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';

// The core lies outside of web/: tools/wasm.sh builds it. The development server hands it out as
// core.wasm; scripts/pack.mjs puts it into the page.
export const corePath =
  process.env.TESSERA_CORE ?? fileURLToPath(new URL('../build-wasm/core.wasm', import.meta.url));

const serveCore: Plugin = {
  name: 'serve-core',
  configureServer(server) {
    server.middlewares.use('/core.wasm', (_request, response) => {
      if (!existsSync(corePath)) {
        response.statusCode = 404;
        response.end(`${corePath} is not there: build it with tools/wasm.sh`);
        return;
      }
      response.setHeader('Content-Type', 'application/wasm');
      response.end(readFileSync(corePath));
    });
  },
};

// Line breaks and indentation of templates, of which browsers show one space: a KB of the packed script. A comment that
// ends with its line must not stand in a template.
const collapseSpace = {
  name: 'collapse-space',
  markup: ({ content }: { content: string }) => ({
    code: content
      .split(/(<script[^]*?<\/script>|<style[^]*?<\/style>|<pre[^]*?<\/pre>)/)
      .map((part) => (/^<(script|style|pre)/.test(part) ? part : part.replace(/\n\s*/g, ' ')))
      .join(''),
  }),
};

export default defineConfig({
  base: './',
  plugins: [svelte({ preprocess: [collapseSpace, vitePreprocess()] }), serveCore],
  build: { target: 'es2022', assetsInlineLimit: 0, cssCodeSplit: false, modulePreload: false },
  worker: { format: 'iife' },
  server: { fs: { allow: ['..'] } }, // the demo's run file
  // Components are tested in a document of their own, without a browser.
  test: {
    environment: 'jsdom',
    include: ['src/**/*.test.ts'],
    setupFiles: ['src/test_setup.ts'],
    testTimeout: 30_000, // on machines that do much else
    // One document for all files of a thread: making one for each took as long as the tests.
    pool: 'threads',
    isolate: false,
  },
  resolve: process.env.VITEST ? { conditions: ['browser'] } : {},
} as Parameters<typeof defineConfig>[0]);
