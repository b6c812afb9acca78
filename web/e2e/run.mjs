// Tests of the packed page in a real Chromium: node e2e/run.mjs [FILE or part of a test's name…]
// In ./test the first test of every file and an eighth of the others, which changes with the commit; all in
// ./test --all. Every test also fails on an error in the console and on a request that leaves the page.
import { readdirSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { openBrowser } from './browser.mjs';
import { Check } from './check.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const html = pathToFileURL(process.env.STUDIO ?? `${here}../dist/studio.html`).href;
const kMostMs = 180_000; // a test may name its own; a busy machine is no failure

// No answer of the core is on its way.
const settled = () =>
  document.querySelector('main') !== null &&
  ![...document.querySelectorAll('[data-busy]')].some((e) => e.dataset.busy === 'true');

async function opened(browser, { options, tolerates }) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on('console', (message) => {
    // A test that ends a server says which errors follow from that.
    const said = `${message.text()}`;
    if (message.type() === 'error' && !tolerates?.test(said)) page.problems.push(`console: ${said}`);
  });
  page.on('pageerror', (error) => page.problems.push(`error: ${error}`));
  page.on('request', (request) => {
    const own = page.allowed && request.url().startsWith(page.allowed); // of a test with a server
    if (!own && !/^(file|data|blob):/.test(request.url())) page.problems.push(`request: ${request.url()}`);
  });
  page.setDefaultTimeout(60_000);
  // A page that is loaded goes to the place over one that has nothing of it: a load for each test took
  // longer than the tests. A test that needs a page of its own says `fresh`.
  page.open = async (place) => {
    if (page.url().startsWith(html)) {
      await page.evaluate(async (there) => {
        for (const hash of ['/watch', there]) {
          location.hash = hash;
          await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        }
        scrollTo(0, 0);
      }, place);
    } else {
      await page.goto(`${html}#${place}`);
    }
    await page.settle();
  };
  page.settle = async () => {
    await page.waitForFunction(settled, null, { timeout: kMostMs });
    await page.waitForTimeout(30);
    await page.waitForFunction(settled, null, { timeout: kMostMs });
  };
  // The address, which the page writes when its sliders rest, or when it is left.
  page.address = () =>
    page.evaluate(() => {
      dispatchEvent(new Event('pagehide'));
      return location.href;
    });
  return { context, page };
}

// Pages that tests with the same options share, one after the other.
const shared = new Map();
async function pageFor(browser, test) {
  if (test.fresh) return opened(browser, test);
  const key = JSON.stringify(test.options ?? {});
  if (!shared.has(key)) shared.set(key, await opened(browser, test));
  return shared.get(key);
}

async function runOne(browser, test) {
  const check = new Check();
  const { context, page } = await pageFor(browser, test);
  page.problems.length = 0;
  const mostMs = test.mostMs ?? kMostMs;
  let timer;
  try {
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done after ${mostMs / 1000} s`)), mostMs);
    });
    await Promise.race([test.run(page, check, context), late]);
  } catch (error) {
    page.problems.push(String(error.stack ?? error));
  }
  clearTimeout(timer);
  if (check.done === 0) page.problems.push('checked nothing');
  const problems = [...page.problems, ...check.failures];
  // What a failure left behind must not fail the next.
  if (test.fresh || problems.length > 0) {
    await context.close();
    shared.delete(JSON.stringify(test.options ?? {}));
  }
  return problems;
}

const wanted = process.argv.slice(2);
// With TESSERA_ROTATION one in eight, others after every commit; TESSERA_TEST_ALL: all.
const { TESSERA_ROTATION: rotation, TESSERA_TEST_ALL: all } = process.env;
const kParts = rotation !== undefined && all === undefined ? 8 : 1;
let number = Number(rotation ?? 0);
const files = readdirSync(here).filter((name) => name.endsWith('.e2e.mjs'));
const browser = await openBrowser();
let failed = 0;
let passed = 0;
let skipped = 0;
for (const file of files) {
  const { tests } = await import(pathToFileURL(`${here}${file}`).href);
  for (const test of tests) {
    const name = `${file.replace('.e2e.mjs', '')}: ${test.name}`;
    if (wanted.length > 0 && !wanted.some((word) => name.includes(word))) continue;
    if (++number % kParts !== 0 && test !== tests[0]) continue;
    if (test.skip) {
      console.log(`skipped ${name}: ${test.skip}`);
      ++skipped;
      continue;
    }
    const began = performance.now();
    const problems = await runOne(browser, test);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    if (problems.length > 0) ++failed;
    else ++passed;
    console.log(
      `${problems.length > 0 ? 'FAILED' : 'ok    '} ${name} (${seconds} s)${problems.map((p) => `\n         ${p}`).join('')}`,
    );
  }
}
await browser.close();
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
