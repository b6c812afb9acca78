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
    find . -mindepth 1 \( -name .git -o -name 'build*' -type d -o -name runs -o -name .cache -o -name __pycache__ \) -prune \
      -o -type f -printf '%P\0'
  fi
}
files=()
while IFS= read -r -d '' file; do
  if [[ -f $file ]]; then files+=("$file"); fi
done < <(list_files)

# A few processes over all files, not a few for each: the check must be quick enough to run often.
# The studio's page lies here packed, so that users need neither npm nor a compiler for it.
while read -r size file; do finding "$file: $size bytes; the limit is 500 KB, 1 MB for the page"; done < <(
  stat -c '%s %n' "${files[@]}" | awk '$1 > ($2 == "web/studio.html.gz" ? 1000000 : 500 * 1024)')
while read -r size file; do finding "$file: $size bytes; pictures of the studio have 100 KB at most"; done < <(
  stat -c '%s %n' docs/pictures/studio/*.png | awk '$1 > 100 * 1024')
while read -r lines file; do finding "$file: $lines lines; a component of the studio has 250 at most"; done < <(
  find web/src -name '*.svelte' -exec wc -l {} + | awk '$1 > 250 && $2 != "total"')
mapfile -t text < <(grep -lI '' -- "${files[@]}")
mapfile -t cpp < <(printf '%s\n' "${text[@]}" | grep -E '\.(h|cc|cu|cuh)$')
mapfile -t scripts < <(grep -lE '^#!.*bash' -- "${text[@]}")

# report MESSAGE GREP-ARGUMENTS...: every matching line is a finding.
report() {
  local message=$1 match
  shift
  while IFS= read -r match; do finding "$match: $message"; done < <(grep -HnIE "$@" | cut -c 1-160)
}
report "trailing white space" '[[:space:]]+$' -- "${text[@]}"
if [[ ${#cpp[@]} -gt 0 ]]; then
  report "tab in C++" $'\t' -- "${cpp[@]}"
  report "a comment that begins with Of: name its subject" '^[[:space:]]*// Of ' -- "${cpp[@]}"
  report "NOLINT, which no tool here reads: say why in words" 'NOLINT' -- "${cpp[@]}"
fi
# The brackets keep this file from matching itself.
report "a path of one machine, or a folder outside the repository" \
  '/[h]ome/[a-z]|/[r]oot/|/[U]sers/|/[w]ork/(main|shared)|[s]hared/design' -- "${text[@]}"

for script in "${scripts[@]}"; do
  bash -n "$script" || finding "$script: does not parse"
done

python3 tools/check_layers.py || finding "tools/check_layers.py found violations"
python3 tools/check_docs.py || finding "tools/check_docs.py found what the documents have wrong"
python3 tools/check_fault_rows.py || finding "tools/check_fault_rows.py found rows of faults without their tests"
for file in "${files[@]}"; do
  case $file in
    *.pyc | *.o | *.so | *.a | *.orig | *.rej | *.log | *__pycache__* | *node_modules/*)
      finding "$file: a leftover of a build or an editor" ;;
  esac
done

formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -n $formatter ]] && "$formatter" --version | grep -q 'version 14\.'; then
  while read -r file; do
    finding "$file: not formatted; run $(basename "$formatter") -i $file"
  done < <(printf '%s\0' "${cpp[@]}" |
    xargs -0 -n 100 -P "$(nproc)" "$formatter" --dry-run --Werror 2>&1 |
    sed -n 's/^\([^:]*\):.*code should be clang-formatted.*/\1/p' | sort -u)
else
  echo "lint: clang-format 14 is not installed: formatting skipped"
fi

if ((failures > 0)); then
  echo "lint: $failures findings"
  exit 1
fi
echo "lint: ${#files[@]} files clean"
