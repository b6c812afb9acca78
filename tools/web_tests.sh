#!/usr/bin/env bash
# Tests of the studio's page. Skips, with the reason, where node or Chromium are too old or absent.
# Usage: tools/web_tests.sh unit|page FOLDER [TESSERA]
#   unit     types, parts and widgets, without a browser
#   page     the packed page of the repository, in Chromium
#   FOLDER   where npm puts what the tests need, once for each package-lock.json
#   TESSERA  the program whose server shows runs to the page; without it those tests are skipped
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
which=${1:?unit or page}
folder=${2:?a folder to work in}

skip() {
  echo "skipped: $*"
  exit 77
}

node_is_new_enough() {
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not here: install node 20.19 or newer"
node_is_new_enough || skip "node is $(node --version): 20.19 or newer is needed"
browser=${CHROMIUM:-/usr/bin/chromium}
if [[ $which == page && ! -x $browser ]]; then skip "no $browser: apt-get install chromium, or CHROMIUM=PATH"; fi

# A copy, so that tests write nothing into the sources; its packages stay as long as the lock file does.
mkdir -p "$folder"
(
  flock 9
  lock=$(sha256sum <"$root/web/package-lock.json")
  if [[ $(cat "$folder/installed" 2>/dev/null) != "$lock" ]]; then
    rm -rf "$folder/web"
    mkdir -p "$folder/web"
    cp "$root"/web/package*.json "$root/web/.npmrc" "$folder/web/"
    (cd "$folder/web" && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-progress >"$folder/npm.log" 2>&1) || {
      tail -n 5 "$folder/npm.log"
      skip "npm could not fetch the packages of web/package-lock.json"
    }
    echo "$lock" >"$folder/installed"
  fi
  (cd "$root/web" && tar cf - --exclude=./node_modules --exclude=./dist .) | tar xf - -C "$folder/web"
  # What the sources no longer have goes: the other test may be at work on the rest.
  (cd "$folder/web" && find . \( -name node_modules -o -name dist \) -prune -o -type f -print) | while read -r file; do
    [[ -e $root/web/$file ]] || rm -f "$folder/web/$file"
  done
  mkdir -p "$folder/examples" "$folder/docs"
  cp "$root"/examples/*.toml "$folder/examples/" # the page has them inside
  cp "$root/docs/lessons.md" "$folder/docs/"     # what the lessons have to say
) 9>"$folder/lock"

cd "$folder/web"
case $which in
  unit)
    # A page is packed only after its types were checked: they are checked again where the sources are not
    # those of the page, once in eight commits (for tests' own types), and with --all.
    if [[ -n ${TESSERA_TEST_ALL:-} || $((${TESSERA_ROTATION:-0} % 8)) -eq 0 ]] || ! node scripts/pack.mjs --check 2>/dev/null; then
      node_modules/.bin/svelte-check --fail-on-warnings
    fi
    node_modules/.bin/vitest run
    ;;
  page)
    node scripts/pack.mjs --check
    gzip -dc studio.html.gz >"$folder/studio.html"
    STUDIO=$folder/studio.html TESSERA=${3:-} node e2e/run.mjs
    ;;
  *) echo "web_tests: error: unknown word '$which': use unit or page" >&2; exit 2 ;;
esac
