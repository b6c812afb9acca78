// One file of the whole page: script, style and core inside, so that it works from a disk and on any
// web server. Writes dist/studio.html and studio.html.gz, which is kept in the repository with the
// hash of what it was made from.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { overBudget, sizesOf } from './budgets.mjs';

const web = fileURLToPath(new URL('..', import.meta.url));
const corePath = process.env.TESSERA_CORE ?? join(web, '../build-wasm/core.wasm');

function filesIn(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) =>
      entry.isDirectory() ? filesIn(join(folder, entry.name)) : [join(folder, entry.name)],
    )
    .sort();
}

// What the page is made from, but for the core: that is compared answer by answer (wasm/parity).
export function sources() {
  const ofTests = (file) => file.endsWith('.test.ts') || file.endsWith('/src/test_setup.ts');
  return [
    ...filesIn(join(web, 'src')).filter((file) => !ofTests(file)),
    ...[
      '../examples/demo.toml', // Look inside opens with it
      'index.html',
      'package.json',
      'package-lock.json',
      'svelte.config.js',
      'vite.config.ts',
      'scripts/budgets.mjs',
      'scripts/pack.mjs',
    ].map((name) => join(web, name)),
  ];
}

export function sourceHash() {
  const hash = createHash('sha256');
  for (const file of sources()) {
    hash.update(`${relative(web, file)}\0`);
    hash.update(readFileSync(file));
  }
  return hash.digest('hex').slice(0, 16);
}

// gzip that takes its time: a twentieth smaller than zlib's best, and the same bytes everywhere.
async function packed(bytes) {
  const { gzipAsync } = await import('@gfx/zopfli');
  return Buffer.from(await gzipAsync(Buffer.from(bytes), { numiterations: 5 }));
}

async function pack() {
  const dist = join(web, 'dist');
  const assets = readdirSync(join(dist, 'assets'));
  const read = (ending) =>
    readFileSync(
      join(
        dist,
        'assets',
        assets.find((name) => name.endsWith(ending)),
      ),
      'utf8',
    );
  const core = (await packed(readFileSync(corePath))).toString('base64');
  const script = read('.js').replaceAll('</script', '<\\/script');
  let html = readFileSync(join(dist, 'index.html'), 'utf8');
  html = html
    .replace(/<script type="module"[^>]*><\/script>/, '')
    .replace(/<link rel="stylesheet"[^>]*>/, '');
  // Functions, so that no $ in the text is taken for a pattern.
  html = html.replace(
    '</head>',
    () => `<meta name="studio-sources" content="${sourceHash()}">\n<style>${read('.css')}</style>\n</head>`,
  );
  html = html.replace(
    '</body>',
    () =>
      `<script type="application/octet-stream" id="core">${core}</script>\n<script type="module">${script}</script>\n</body>`,
  );
  writeFileSync(join(dist, 'studio.html'), html);
  const page = await packed(html);
  page.writeUInt8(255, 9); // no name of the system that wrote it
  const sizes = sizesOf(html, page);
  const parts = Object.entries(sizes).map(([part, size]) => `${part} ${size.toFixed(1)} KB`);
  console.log(`studio.html ${(html.length / 1000).toFixed(0)} KB; packed: ${parts.join(', ')}`);
  const over = overBudget(sizes);
  if (over.length > 0) {
    for (const line of over) console.error(line);
    process.exit(1);
  }
  writeFileSync(join(web, 'studio.html.gz'), page);
}

// The page in the repository must be made from these sources.
function check() {
  const html = gunzipSync(readFileSync(join(web, 'studio.html.gz'))).toString();
  const made = html.match(/name="studio-sources" content="([0-9a-f]+)"/)?.[1];
  if (made === sourceHash()) return;
  console.error(
    `web/studio.html.gz was made from ${made}, the sources are ${sourceHash()}: cd web && npm run build`,
  );
  process.exit(1);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--check')) check();
  else await pack();
}
