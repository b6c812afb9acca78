#!/usr/bin/env bash
# Usage: check_installed.sh BUILD SOURCE FOLDER [PYTHON]
# Installs what BUILD has made into a new prefix in FOLDER, moves the prefix, builds the examples in it
# with find_package and with pkg-config, and runs them; trains an example that was installed; imports the
# Python package, where there is one.
set -euo pipefail
build=$1 source=$2 folder=$(realpath -m "$3") python=${4:-python3}

rm -rf "$folder"
mkdir -p "$folder"
cmake --install "$build" --prefix "$folder/first" >"$folder/install.log"
mv "$folder/first" "$folder/prefix" # nothing in it may know where it was

# Nothing of the source tree may be seen: a header that was not installed must be missed here.
programs=$(dirname "$(find "$folder/prefix/share/doc" -name with_package)")
cmake -G Ninja -S "$programs/with_package" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_BUILD_TYPE=Debug >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder/build" -j 2 >"$folder/build.log" 2>&1 || { cat "$folder/build.log"; exit 1; }
bash "$source/tests/install/run_examples.sh" "$folder/build" "$folder/outputs"

tessera=$folder/prefix/bin/tessera
"$tessera" version

# Help says examples/demo.toml: where that is not, the answer names the installed one.
examples=$folder/prefix/share/doc/tessera/examples
mkdir "$folder/home"
cd "$folder/home"
said=$("$tessera" plan examples/demo.toml 2>&1) && { echo "planned a file that is not there: $said"; exit 1; }
grep -qF "it was installed as '$examples/demo.toml'" <<<"$said" || { echo "$said"; exit 1; }
for run in demo pipeline experts; do
  "$tessera" --quiet train "$examples/$run.toml" --set train.steps=1 >"$run.txt" || { cat "$run.txt"; exit 1; }
  [[ -s runs/$run/model.safetensors ]] || { echo "runs/$run has no weights"; exit 1; }
done
echo "the installed examples train"

library=$(dirname "$(find "$folder/prefix" -name libtessera.so)")
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$library/pkgconfig
  read -r -a flags <<<"$(pkg-config --cflags --libs tessera)"
  c++ "$programs/05_simulate/main.cc" -o "$folder/by_pkg_config" "${flags[@]}" "-Wl,-rpath,$library"
  "$folder/by_pkg_config" | grep -q 'with one GPU 1.3 times slower'
  echo "pkg-config: a program compiled with its flags runs"
else
  echo "pkg-config is not installed: tessera.pc was not tried"
fi

module=$(find "$folder/prefix" -name '_tessera.*.so')
if [[ -n $module ]]; then
  PYTHONPATH=$(dirname "$(dirname "$module")") "$python" -B -c '
import tessera
print("import tessera:", tessera.plan(model="gpt2", cluster="h100-8"))'
fi
