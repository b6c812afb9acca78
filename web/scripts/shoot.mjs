// Pictures of pages, to look at: node scripts/shoot.mjs OUT_DIR [PAGE…] [--width 1440,768,360] [--theme light,dark]
// PAGE is what stands after # in the address: /plan, /learn/collectives?ranks=8. Without one: every page, and
// a recorded run as `tessera studio` serves it, where that program has been built.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { openBrowser } from '../e2e/browser.mjs';
import { kPages } from '../e2e/pages.mjs';
import { Studio, why } from '../e2e/server.mjs';

const words = process.argv.slice(2);
function option(name, initial) {
  const at = words.indexOf(name);
  return at < 0 ? initial : words.splice(at, 2)[1];
}
const widths = option('--width', '1440,768,360').split(',').map(Number);
const themes = option('--theme', 'light,dark').split(',');
const html = option('--page', fileURLToPath(new URL('../dist/studio.html', import.meta.url)));
const [out, ...given] = words;
if (!out) throw new Error('name the folder for the pictures: node scripts/shoot.mjs OUT_DIR');
mkdirSync(out, { recursive: true });
const pages = given.length > 0 ? given : kPages;
const name = (page) => page.replace(/[^a-z0-9]+/gi, '-').replace(/^-/, '');

async function shoot(tab, file) {
  await tab.waitForFunction(
    () => document.querySelector('main') && !document.querySelector('[data-busy=true]'),
    null,
    { timeout: 60000 },
  );
  await tab.waitForTimeout(800);
  await tab.screenshot({ path: join(out, `${file}.png`), fullPage: true });
  await tab.close();
}

// A run of four ranks that has ended, with its plan.
async function serveRun() {
  const studio = new Studio();
  studio.copy('demo', 'metrics.jsonl', 'recorded.jsonl');
  studio.copy('demo', 'plan.json', 'recorded_plan.json');
  await studio.serve();
  return studio;
}
const served = given.length === 0 && why === '' ? await serveRun() : undefined;
if (given.length === 0 && why !== '') console.error(`no picture of a served run: ${why}`);
const browser = await openBrowser();
for (const width of widths) {
  for (const theme of themes) {
    const context = await browser.newContext({
      viewport: { width, height: 900 },
      colorScheme: theme,
      reducedMotion: 'reduce',
    });
    const open = async (page) => {
      const tab = await context.newPage();
      tab.on('console', (message) => message.type() === 'error' && console.error(page, message.text()));
      tab.on('pageerror', (error) => console.error(page, error));
      return tab;
    };
    for (const page of pages) {
      const tab = await open(page);
      await tab.goto(`${html.startsWith('http') ? html : pathToFileURL(html)}#${page}`);
      await shoot(tab, `${name(page)}-${theme}-${width}`);
    }
    if (served) {
      const tab = await open('a served run');
      await served.open(tab, '/watch/demo');
      await tab.getByRole('heading', { name: /^Loss/ }).first().waitFor();
      await shoot(tab, `watch-served-${theme}-${width}`);
    }
    await context.close();
  }
}
await browser.close();
await served?.end();
