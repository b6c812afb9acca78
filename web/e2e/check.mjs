// What a test expects. All failures of a test are said, not the first alone.
export class Check {
  failures = [];
  done = 0;

  that(holds, what) {
    ++this.done;
    if (!holds) this.failures.push(what);
  }
  equal(actual, expected, what) {
    this.that(
      actual === expected,
      `${what}: ${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`,
    );
  }
  near(actual, expected, relative, what) {
    this.that(
      Math.abs(actual - expected) <= relative * Math.abs(expected),
      `${what}: ${actual} instead of ${expected}`,
    );
  }
  contains(text, part, what = 'text') {
    this.that(text.includes(part), `${what}: '${part}' is not in '${text.slice(0, 400)}'`);
  }
}
