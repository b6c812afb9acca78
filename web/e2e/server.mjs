// `tessera studio` and runs for tests, in a folder that is removed at the end.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
export const kTessera = process.env.TESSERA ?? join(here, '../../build/bin/tessera');
const kHtml = process.env.STUDIO ?? join(here, '../dist/studio.html');
const kPatienceMs = 20_000;

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Studio {
  port = 0;
  children = [];
  folder = mkdtempSync(join(tmpdir(), 'tessera-watch-'));

  get origin() {
    return `http://127.0.0.1:${this.port}`;
  }
  start(words, environment = {}) {
    const child = spawn(kTessera, words, {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...environment },
    });
    this.children.push(child);
    child.said = '';
    for (const pipe of [child.stdout, child.stderr]) pipe.on('data', (bytes) => (child.said += bytes));
    return child;
  }
  // Serves "runs", on the port of the server before, and waits until it listens.
  async serve() {
    mkdirSync(join(this.folder, 'runs'), { recursive: true });
    const words = ['studio', 'runs', ...(this.port ? ['--port', String(this.port)] : [])];
    const server = (this.server = this.start(words));
    for (let waited = 0; ; waited += 20) {
      const link = server.said.match(/http:\/\/[^/]*:(\d+)\//);
      if (link) return (this.port = Number(link[1]));
      if (waited > kPatienceMs || server.exitCode !== null) throw new Error(`no server: ${server.said}`);
      await pause(20);
    }
  }
  async kill(child = this.server) {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  async end() {
    for (const child of this.children) await this.kill(child);
    rmSync(this.folder, { recursive: true, force: true });
  }

  // Files of a run, below runs/.
  path(run, name) {
    const path = join(this.folder, 'runs', run, name);
    mkdirSync(dirname(path), { recursive: true });
    return path;
  }
  write(run, name, text) {
    writeFileSync(this.path(run, name), text);
  }
  append(run, text) {
    appendFileSync(this.path(run, 'metrics.jsonl'), text);
  }
  copy(run, name, from) {
    copyFileSync(join(here, 'data', from), this.path(run, name));
  }
  // As if its last line had been written then.
  age(run, seconds) {
    const then = Date.now() / 1000 - seconds;
    utimesSync(this.path(run, 'metrics.jsonl'), then, then);
  }

  // The page of the tests, at `place`. A program that was built before it still serves the runs.
  async open(page, place) {
    page.allowed = `${this.origin}/`;
    const html = readFileSync(kHtml, 'utf8');
    const served = await fetch(page.allowed);
    if ((await served.text()) !== html) {
      const scripts = [...html.matchAll(/<script[^>]*>([^]*?)<\/script/g)].map(
        ([, text]) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`,
      );
      const policy = served.headers.get('content-security-policy');
      const headers = {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': policy.replace("'wasm-unsafe-eval'", (word) =>
          [word, ...scripts].join(' '),
        ),
      };
      await page.route(page.allowed, (route) => route.fulfill({ headers, body: html }));
    }
    await page.goto(`${page.allowed}#${place}`);
  }
}

// A request with exactly these header fields.
export function ask(port, path, headers = {}) {
  return new Promise((done, fail) => {
    const asked = request({ port, path, headers, timeout: kPatienceMs }, (response) => {
      let body = '';
      response
        .on('data', (bytes) => (body += bytes))
        .on('end', () => done({ status: response.statusCode, body }));
    });
    asked.on('error', fail).end();
  });
}
// Reads events until there are `lines` lines.
export function readLines(port, run, lines) {
  return new Promise((done, fail) => {
    const asked = request({ port, path: `/api/runs/${run}/events`, timeout: kPatienceMs }, (response) => {
      let text = '';
      response.on('data', (bytes) => {
        text += bytes;
        const found = [...text.matchAll(/^id: .*\ndata: (.*)\n\n/gm)].map(([, data]) => data);
        if (found.length < lines) return;
        asked.destroy();
        done(found);
      });
    });
    asked.on('error', fail).end();
  });
}
export const why = existsSync(kTessera) ? '' : `no program at '${kTessera}': TESSERA=PATH names one`;
