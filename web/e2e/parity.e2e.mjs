// The core in this browser answers random requests as the native program does, byte for byte.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const kRequests = 100;
const program =
  process.env.TESSERA_REQUESTS ?? fileURLToPath(new URL('../../build/bin/requests', import.meta.url));

export const tests = [
  {
    name: `${kRequests} random requests are answered as by the program`,
    skip: existsSync(program) ? undefined : `no ${program}: build it, or set TESSERA_REQUESTS`,
    run: async (page, check) => {
      const printed = spawnSync(program, [`${kRequests}`, '7', '--calls'], {
        encoding: 'utf8',
        maxBuffer: 2 ** 30,
        timeout: 55_000,
      });
      check.equal(printed.status, 0, `exit code of ${program}`);
      const lines = printed.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      check.equal(lines.length, kRequests, 'requests');
      await page.open('/learn/one-device');
      for (const { method, request, answer } of lines) {
        const said = await page.evaluate(
          ([name, text]) => globalThis.tessera.respond(name, text),
          [method, request],
        );
        check.that(said === answer, `${method} ${request.slice(0, 300)}: answers differ`);
      }
    },
  },
];
