#!/usr/bin/env bash
# Usage: check_packages.sh PACKAGES FOLDER
# Unpacks the Debian packages and the tarball that lie in PACKAGES into FOLDER, without installing them,
# and tries what they have: programs, examples, the library, the Python package.
set -euo pipefail
packages=$(realpath "$1") folder=$(realpath -m "$2")
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
rm -rf "$folder"
mkdir -p "$folder"

fail() {
  echo "check_packages: error: $*" >&2
  exit 1
}

# Nothing of a GPU, no compiler and no package of another kind may be needed; all may read every file.
check_package() {
  local deb=$1 depends
  depends=$(dpkg-deb -f "$deb" Depends)
  if [[ $deb != */libtessera-dev_* ]] && grep -qE 'g\+\+|gcc-[0-9]|cmake|-dev|cuda|cudnn|nccl' <<<"$depends"; then
    fail "$deb depends on: $depends"
  fi
  if dpkg-deb -c "$deb" | awk '$1 !~ /^([dl]|-r..r..r)/ || $2 != "root/root"' | grep .; then
    fail "$deb: files above are not everybody's to read, or not root's"
  fi
  dpkg-deb -x "$deb" "$folder/debian"
}
for deb in "$packages"/*.deb; do check_package "$deb"; done

# The loader knows /usr; CUDA's libraries are opened, not linked.
while IFS= read -r file; do
  dynamic=$(readelf -d "$file" 2>/dev/null || true)
  if grep -qE 'RPATH|RUNPATH|NEEDED.*(cuda|cublas|cudnn|nccl|nvidia)' <<<"$dynamic"; then
    fail "$file: $dynamic"
  fi
done < <(find "$folder/debian/usr" -type f \( -name '*.so*' -o -path '*/bin/*' \))

# try_prefix PREFIX PYTHON_FOLDER: what a user does first, in an empty folder.
try_prefix() {
  local prefix=$1 python_folder=$2 here
  here=$(mktemp -d "$folder/home.XXXXXX")
  local tessera=$prefix/bin/tessera
  "$tessera" version
  (
    cd "$here"
    "$tessera" doctor >doctor.txt
    "$tessera" plan examples/demo.toml >said.txt 2>&1 && fail "there is no examples/demo.toml, and it was planned"
    grep -qF "'$prefix/share/doc/tessera/examples/demo.toml'" said.txt || fail "$(cat said.txt)"
    "$tessera" --quiet train "$prefix/share/doc/tessera/examples/demo.toml" --set train.steps=2 >train.txt
    "$tessera" generate --run runs/demo --prompt Once --tokens 4 >generate.txt
    "$tessera" plan --model llama-3-405b --cluster h100-16384 --tp 8 --pp 16 --zero 1 --json >plan.json
    PYTHONPATH=$prefix/$python_folder /usr/bin/python3 -B - <<'PYTHON'
import json, tessera
with open("plan.json", encoding="utf-8") as file:
    of_the_command = json.load(file)
plan = tessera.plan(model="llama-3-405b", cluster="h100-16384", tp=8, pp=16, zero=1)
assert dict(plan) == of_the_command, "the plan of the Python package is another one than the command's"
print("import tessera: the plan of llama-3-405b is the command's")
PYTHON
  )
}
triple=$(basename "$(find "$folder/debian/usr/lib" -maxdepth 1 -name '*-linux-gnu')")
(
  export LD_LIBRARY_PATH=$folder/debian/usr/lib/$triple
  try_prefix "$folder/debian/usr" lib/python3/dist-packages
)
mkdir "$folder/tarball"
tar -xzf "$packages"/tessera-*.tar.gz -C "$folder/tarball" --strip-components 1
try_prefix "$folder/tarball" "$(cd "$folder/tarball" && echo lib/python3.*/site-packages)"

# The library, as a project of somebody else.
for prefix in "$folder/debian/usr" "$folder/tarball"; do
  examples=$(dirname "$(find "$prefix/share/doc" -name with_package)")
  build=$(mktemp -d "$folder/build.XXXXXX")
  cmake -G Ninja -S "$examples/with_package" -B "$build" "-DCMAKE_PREFIX_PATH=$prefix" >"$build/log" 2>&1 || fail "$(cat "$build/log")"
  cmake --build "$build" --parallel 2 >"$build/log" 2>&1 || fail "$(cat "$build/log")"
  bash "$source/tests/install/run_examples.sh" "$build" "$build/outputs"
done
echo "check_packages: the packages and the tarball work"
