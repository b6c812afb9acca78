#!/usr/bin/env bash
# The client library of OpenAI (npm openai), unmodified, against `tessera serve` of a small run.
# Skips, with the reason, where node or npm are not here or npm cannot fetch it.
# Usage: tools/openai_tests.sh FOLDER TESSERA
#   FOLDER   to work in; what npm put there stays for each package-lock.json
#   TESSERA  the program
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
source "$root/tools/served_run.sh"
folder=${1:?a folder to work in}
tessera=${2:?the tessera program}

skip() {
  echo "skipped: $*"
  exit 77
}

command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not here: install node 20 or newer"
node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' ||
  skip "node is $(node --version): 20 or newer is needed"

mkdir -p "$folder"
folder=$(cd "$folder" && pwd -P)
exec 9>"$folder/lock"
flock 9
lock=$(sha256sum <"$root/tests/openai/package-lock.json")
if [[ $(cat "$folder/installed" 2>/dev/null) != "$lock" ]]; then
  rm -rf "$folder/client"
  mkdir -p "$folder/client"
  cp "$root"/tests/openai/package*.json "$root/tests/openai/.npmrc" "$folder/client/"
  (cd "$folder/client" && npm ci --no-progress >"$folder/npm.log" 2>&1) || {
    tail -n 5 "$folder/npm.log"
    skip "npm could not fetch the packages of tests/openai/package-lock.json"
  }
  echo "$lock" >"$folder/installed"
fi
cp "$root/tests/openai/client.mjs" "$folder/client/"

start_served_run "$folder" "$tessera" "$root"
node client/client.mjs "$address" $key
kill -TERM $server
wait $server
