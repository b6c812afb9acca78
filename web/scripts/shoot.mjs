// Pictures of pages, to look at: node scripts/shoot.mjs OUT_DIR PAGE… [--width 1440,768,360] [--theme light,dark]
// PAGE is what stands after # in the address: /plan, /learn/collectives?ranks=8
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { openBrowser } from '../e2e/browser.mjs';

const words = process.argv.slice(2);
function option(name, initial) {
  const at = words.indexOf(name);
  return at < 0 ? initial : words.splice(at, 2)[1];
}
const widths = option('--width', '1440,768,360').split(',').map(Number);
const themes = option('--theme', 'light,dark').split(',');
const html = option('--page', fileURLToPath(new URL('../dist/studio.html', import.meta.url)));
const [out, ...pages] = words;
mkdirSync(out, { recursive: true });
const browser = await openBrowser();
for (const width of widths) {
  for (const theme of themes) {
    const context = await browser.newContext({
      viewport: { width, height: 900 },
      colorScheme: theme,
      reducedMotion: 'reduce',
    });
    for (const page of pages) {
      const tab = await context.newPage();
      tab.on('console', (message) => message.type() === 'error' && console.error(page, message.text()));
      tab.on('pageerror', (error) => console.error(page, error));
      await tab.goto(`${html.startsWith('http') ? html : pathToFileURL(html)}#${page}`);
      await tab.waitForFunction(
        () => document.querySelector('main') && !document.querySelector('[data-busy=true]'),
        null,
        { timeout: 60000 },
      );
      await tab.waitForTimeout(800);
      const name = page.replace(/[^a-z0-9]+/gi, '-').replace(/^-/, '');
      await tab.screenshot({ path: join(out, `${name}-${theme}-${width}.png`), fullPage: true });
      await tab.close();
    }
    await context.close();
  }
}
await browser.close();
