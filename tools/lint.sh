#!/usr/bin/env bash
# Style checks over every source file: formatting, layers, documents, white space, sizes, scripts,
# leftovers, strings that must not be committed. Prints every finding; exits 1 if there is any.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failures=0
finding() {
  echo "lint: $*"
  failures=$((failures + 1))
}

list_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
  else
    find . -mindepth 1 \( -name .git -o -name 'build*' -type d -o -name runs -o -name .cache \) -prune \
      -o -type f -printf '%P\0'
  fi
}
files=()
while IFS= read -r -d '' file; do
  if [[ -f $file ]]; then files+=("$file"); fi
done < <(list_files)

cpp=() text=() scripts=()
for file in "${files[@]}"; do
  size=$(stat -c %s "$file")
  if ((size > 500 * 1024)); then finding "$file: $size bytes; the limit is 500 KB"; fi
  if [[ -s $file ]] && ! grep -qI . "$file"; then continue; fi
  text+=("$file")
  case $file in
    *.h | *.cc | *.cu | *.cuh) cpp+=("$file") ;;
    *.sh) scripts+=("$file") ;;
    *) if head -n 1 "$file" | grep -q '^#!.*bash'; then scripts+=("$file"); fi ;;
  esac
done

# report MESSAGE GREP-ARGUMENTS...: every matching line is a finding.
report() {
  local message=$1 match
  shift
  while IFS= read -r match; do finding "$match: $message"; done < <(grep -HnIE "$@" | cut -c 1-160)
}
report "trailing white space" '[[:space:]]+$' -- "${text[@]}"
if [[ ${#cpp[@]} -gt 0 ]]; then report "tab in C++" $'\t' -- "${cpp[@]}"; fi
# The brackets keep this file from matching itself.
report "a path of one machine, or a folder outside the repository" \
  '/[h]ome/[a-z]|/[r]oot/|/[U]sers/|/[w]ork/(main|shared)|[s]hared/design' -- "${text[@]}"

for script in "${scripts[@]}"; do
  bash -n "$script" || finding "$script: does not parse"
done

python3 tools/check_layers.py || finding "tools/check_layers.py found violations"
python3 tools/check_docs.py || finding "tools/check_docs.py found what the documents have wrong"
for file in "${files[@]}"; do
  case $file in
    *.pyc | *.o | *.so | *.a | *.orig | *.rej | *.log | *__pycache__* | *node_modules/*)
      finding "$file: a leftover of a build or an editor" ;;
  esac
done

formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -n $formatter ]] && "$formatter" --version | grep -q 'version 14\.'; then
  for file in "${cpp[@]}"; do
    "$formatter" --dry-run --Werror "$file" 2>/dev/null ||
      finding "$file: not formatted; run $(basename "$formatter") -i $file"
  done
else
  echo "lint: clang-format 14 is not installed: formatting skipped"
fi

if ((failures > 0)); then
  echo "lint: $failures findings"
  exit 1
fi
echo "lint: ${#files[@]} files clean"
