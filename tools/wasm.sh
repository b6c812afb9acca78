#!/usr/bin/env bash
# Builds the core of the studio in WebAssembly: build-wasm/core.wasm (wasm/README.md).
# Usage: tools/wasm.sh [--install]
#   --install   first installs the packages that are missing, with apt (Debian 12)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(clang-19 lld-19 libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32 wasi-libc binaryen
  cmake ninja-build libfmt-dev nlohmann-json3-dev libtomlplusplus-dev)

fail() {
  echo "wasm: error: $*" >&2
  exit 2
}

install=
case ${1:-} in
  '') ;;
  --install) install=1 ;;
  -h | --help)
    sed -n '2,4s/^# //p' "$0"
    exit 0
    ;;
  *) fail "unknown word '$1': use --install, or nothing" ;;
esac

missing=()
for package in "${packages[@]}"; do
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -gt 0 ]]; then
  [[ -n $install ]] || fail "these packages are missing: ${missing[*]}. Install them, or run tools/wasm.sh --install"
  root=()
  if [[ $(id -u) -ne 0 ]]; then root=(sudo); fi
  "${root[@]}" apt-get install -y --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install ${missing[*]}: see the lines above"
fi

cmake -S . -B build-wasm -G Ninja --toolchain cmake/wasm.cmake -DTESSERA_UNITY=ON >/dev/null
ninja -C build-wasm
echo "wasm: build-wasm/core.wasm, $(wc -c <build-wasm/core.wasm) bytes, $(gzip -9c build-wasm/core.wasm | wc -c) compressed"
