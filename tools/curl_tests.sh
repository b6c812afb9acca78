#!/usr/bin/env bash
# curl against `tessera serve` of a small run: what users type first. Skips where curl is not here.
# Usage: tools/curl_tests.sh FOLDER TESSERA
#   FOLDER   to work in
#   TESSERA  the program
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
source "$root/tools/served_run.sh"
folder=${1:?a folder to work in}
tessera=${2:?the tessera program}

if ! command -v curl >/dev/null; then
  echo "skipped: curl is not here: tools/setup.sh tests installs it"
  exit 77
fi

mkdir -p "$folder"
folder=$(cd "$folder" && pwd -P)
exec 9>"$folder/lock"
flock 9
start_served_run "$folder" "$tessera" "$root"

checks=0
fail() {
  echo "failed: $*" >&2
  exit 1
}

# ask STATUS PATTERN ARGUMENTS...: curl's response has the status, and its body the pattern.
ask() {
  local wanted=$1 pattern=$2 status
  shift 2
  status=$(curl --silent --show-error --max-time 60 --noproxy '*' --output body --write-out '%{http_code}' "$@")
  [[ $status == "$wanted" ]] || fail "$*: status $status instead of $wanted: $(head -c 500 body)"
  grep -Eq -- "$pattern" body || fail "$*: no '$pattern' in: $(head -c 500 body)"
  checks=$((checks + 1))
}

auth=(-H "Authorization: Bearer $key")
ask 200 '"live"' "$address/health/live"
ask 200 '"ready"' "${auth[@]}" "$address/health/ready"
ask 401 'invalid_api_key' "$address/v1/models"
ask 401 'invalid_api_key' -H 'Authorization: Bearer no' "$address/v1/models"
ask 200 '"id": ?"run"' "${auth[@]}" "$address/v1/models"
ask 200 'tessera_ready\{' "${auth[@]}" "$address/metrics"
ask 200 '<!doctype html>' "$address/?token=$key" --location --cookie-jar jar
ask 404 '"not_found"' "${auth[@]}" "$address/v1/nothing"
ask 405 'method_not_allowed' "${auth[@]}" -X PUT "$address/v1/models"

some='"max_tokens": 5, "temperature": 0'
ask 200 '"finish_reason": ?"length"' "${auth[@]}" "$address/v1/completions" -d "{\"prompt\": \"abc\", $some}"
cp body first
ask 200 '"completion_tokens": ?5' "${auth[@]}" -H 'Content-Type: application/json' "$address/v1/completions" \
  -d "{\"prompt\": [97, 98, 99], $some, \"return_token_ids\": true}"
ask 200 '"role": ?"assistant"' "${auth[@]}" "$address/v1/chat/completions" \
  -d "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}], $some}"
ask 200 '^data: \[DONE\]' "${auth[@]}" --no-buffer "$address/v1/completions" -d "{\"prompt\": \"abc\", $some, \"stream\": true}"
(($(grep -c '^data: ' body) > 2)) || fail "a stream of one event: $(cat body)"
ask 400 'invalid_json' "${auth[@]}" "$address/v1/completions" -d '{'
ask 400 'unknown_field' "${auth[@]}" "$address/v1/completions" -d '{"prompt": "a", "max_tokns": 5}'
ask 400 'context_length_exceeded' "${auth[@]}" "$address/v1/completions" -d '{"prompt": "a", "max_tokens": 5000}'

# A large body from a file, for which curl asks first (Expect: 100-continue); one that is too large.
printf '{"prompt": "abc", %s, "user": "%s"}' "$some" "$(head -c 1000000 /dev/zero | tr '\0' x)" >large
ask 200 '"finish_reason"' "${auth[@]}" "$address/v1/completions" --data-binary @large
head -c 3000000 /dev/zero | tr '\0' x >too_large
ask 413 'too_large' "${auth[@]}" "$address/v1/completions" --data-binary @too_large
# Chunks instead of a length; two requests on one connection; HEAD; HTTP/1.0.
ask 200 '"finish_reason"' "${auth[@]}" "$address/v1/completions" -H 'Transfer-Encoding: chunked' -d "{\"prompt\": \"abc\", $some}"
ask 200 '"live"' "$address/health/live" --next --silent --output body "$address/health/live"
curl --silent --max-time 60 --noproxy '*' --head "$address/health/live" | grep -q '^HTTP/1.1 200' || fail "HEAD"
ask 200 '"live"' --http1.0 "$address/health/live"

# The same text for the same request, to the last byte of what is said.
text_of() { sed -E 's/.*"text": ?("([^"\\]|\\.)*").*/\1/' "$1"; }
ask 200 '"text"' "${auth[@]}" "$address/v1/completions" -d "{\"prompt\": \"abc\", $some}"
[[ $(text_of body) == "$(text_of first)" ]] || fail "another text: $(cat body) after $(cat first)"

# A client that is killed in the middle of a stream leaves nothing.
curl --silent --noproxy '*' --max-time 60 --no-buffer "${auth[@]}" "$address/v1/completions" \
  -d '{"prompt": "abc", "max_tokens": 1000, "stream": true}' >stream 2>&1 &
client=$!
for ((i = 0; i < 300; ++i)); do
  [[ -s stream ]] && break
  sleep 0.1
done
kill -9 $client
wait $client 2>/dev/null || true
for ((i = 0; i < 300; ++i)); do
  curl --silent --noproxy '*' --max-time 60 "${auth[@]}" "$address/metrics" >metrics
  grep -Eq '^tessera_http_requests_open\{[^}]*\} 0' metrics && break
  sleep 0.1
done
grep -Eq '^tessera_http_requests_open\{[^}]*\} 0' metrics || fail "a client that is gone is still there"

kill -TERM $server
wait $server
echo "$checks checks"
