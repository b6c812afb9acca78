#!/usr/bin/env bash
# The client library of OpenAI (npm openai), unmodified, against `tessera serve` of a small run.
# Skips, with the reason, where node or npm are not here or npm cannot fetch it.
# Usage: tools/openai_tests.sh FOLDER TESSERA
#   FOLDER   to work in; what npm put there stays for each package-lock.json
#   TESSERA  the program
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
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

# A run of bytes whose weights are random: what it says means nothing, but it says it to everybody alike.
cd "$folder"
cat >run.toml <<'TOML'
[model]
layers = 2
hidden = 32
ffn = 48
heads = 4
kv_heads = 2
vocab = 256
init_std = 0.3

[train]
seq_len = 1024
micro_batch = 1
global_batch = 1
steps = 1

[data]
synth = { seed = 7, bytes = 20000 }

[logging]
run_dir = "run"
TOML
rm -rf run
"$tessera" -q train run.toml >train.log 2>&1 || { cat train.log; exit 1; }

key=0123456789abcdef0123456789abcdef
: >out
TESSERA_API_KEY=$key "$tessera" serve run --port 0 --chat-template "$root/tests/data/templates/chatml.jinja" >out 2>err &
server=$!
trap 'kill -9 $server 2>/dev/null || true' EXIT
for ((i = 0; i < 600; ++i)); do
  if grep -q '^listening on ' out || ! kill -0 $server 2>/dev/null; then break; fi
  sleep 0.1
done
address=$(sed -n 's/^listening on //p' out)
[[ -n $address ]] || { cat err; exit 1; }
node client/client.mjs "$address" $key
kill -TERM $server
wait $server
