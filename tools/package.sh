#!/usr/bin/env bash
# Builds the Debian packages and a tarball, for any CPU from x86-64-v3 on (2013) and, where nvcc is
# found, for GPUs from Ampere on. Nothing of CUDA is needed where they are installed.
# Unpacks and tries them, and has lintian look at them where it is installed.
# Usage: tools/package.sh [FOLDER] [cmake options]
#   FOLDER   where it builds (default build-package); the packages lie in FOLDER/packages
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
source "$root/tools/build.sh"

folder=$root/build-package
if [[ $# -gt 0 && $1 != -* ]]; then
  folder=$(realpath -m "$1")
  shift
fi
fail() {
  echo "package: error: $*" >&2
  exit 1
}
command -v dpkg-shlibdeps >/dev/null || fail "dpkg-shlibdeps is missing: install dpkg-dev"

cuda=off
if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then cuda=on; fi
# Messages name files as the checkout has them, wherever that was.
paths=-ffile-prefix-map=$root/=
options=(-DCMAKE_BUILD_TYPE=Release -DTESSERA_MARCH=x86-64-v3 -DTESSERA_UNITY=ON
  -DTESSERA_CUDA=$cuda "-DTESSERA_CUDA_ARCHITECTURES=90-real;80-virtual"
  -DTESSERA_PYTHON=on -DPython3_EXECUTABLE=/usr/bin/python3 -DTESSERA_TESTS=OFF
  -DTESSERA_BENCH=OFF -DTESSERA_EXAMPLES=OFF
  # Addresses are random, tables read-only and copies checked, as Debian builds its own.
  "-DCMAKE_CXX_FLAGS=$paths -D_FORTIFY_SOURCE=2" "-DCMAKE_CUDA_FLAGS=-Xcompiler $paths"
  "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-z,relro,-z,now" "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,relro,-z,now"
  "-DCMAKE_MODULE_LINKER_FLAGS=-Wl,-z,relro,-z,now")

# build_for PREFIX [cmake options]: what depends on the prefix is little, and linked anew in seconds.
build_for() {
  cmake -S "$root" -B "$folder" -G Ninja "${options[@]}" -UTESSERA_PYTHON_DIR "-DCMAKE_INSTALL_PREFIX=$1" "${@:2}"
  if grep -q -- '-march=native' "$folder/compile_commands.json"; then
    fail "a source is compiled for this machine's CPU alone: see -march=native in $folder/compile_commands.json"
  fi
  cmake --build "$folder" --parallel "$(build_jobs)"
}
rm -rf "$folder/packages"
build_for /usr "$@"
(cd "$folder" && cpack -G DEB -B "$folder/packages")
build_for /opt/tessera "$@" # the tarball can be unpacked anywhere
(cd "$folder" && cpack -G TGZ -B "$folder/packages")
rm -rf "$folder/packages/_CPack_Packages"
bash "$root/tests/install/check_packages.sh" "$folder/packages" "$folder/unpacked"

if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$folder"/packages/*.deb
else
  echo "package: lintian is not installed: the packages were not checked" >&2
fi
ls -l "$folder/packages"
