#!/usr/bin/env bash
# Builds the Debian packages and a tarball, for any CPU from x86-64-v3 on (2013) and, where nvcc is
# found, for GPUs from Ampere on. Nothing of CUDA is needed where they are installed.
# Usage: tools/package.sh [FOLDER] [cmake options]
#   FOLDER   where it builds (default build-package); the packages lie in FOLDER/packages
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

folder=$root/build-package
if [[ $# -gt 0 && $1 != -* ]]; then
  folder=$(realpath -m "$1")
  shift
fi
command -v dpkg-shlibdeps >/dev/null || {
  echo "package: error: dpkg-shlibdeps is missing: install dpkg-dev" >&2
  exit 1
}

cuda=off
if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then cuda=on; fi
options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DTESSERA_MARCH=x86-64-v3
  -DTESSERA_CUDA=$cuda "-DTESSERA_CUDA_ARCHITECTURES=90-real;80-virtual"
  -DTESSERA_PYTHON=on -DPython3_EXECUTABLE=/usr/bin/python3 -DTESSERA_TESTS=OFF
  -DTESSERA_BENCH=OFF -DTESSERA_EXAMPLES=OFF
  # Addresses are random and tables read-only, as Debian builds its own.
  "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-z,relro,-z,now" "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,relro,-z,now")
cmake -S "$root" -B "$folder" -G Ninja "${options[@]}" "$@"
cmake --build "$folder"
rm -rf "$folder/packages"
(cd "$folder" && cpack -B "$folder/packages")
rm -rf "$folder/packages/_CPack_Packages"

if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$folder"/packages/*.deb
else
  echo "package: lintian is not installed: the packages were not checked" >&2
fi
ls -l "$folder/packages"
