#!/usr/bin/env bash
# Installs what building Tessera needs on Debian 12 or Ubuntu 24.04, with apt. Does nothing, quickly,
# when everything is there.
# Usage: tools/setup.sh [tests]
#   tests   also what the tests need, and MPI
set -euo pipefail

packages=(g++ cmake ninja-build libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev
  zlib1g-dev libboost-dev libpcre2-dev libutf8proc-dev libzstd-dev)
test_packages=(libgtest-dev libonig-dev openmpi-bin libopenmpi-dev iproute2 python3 curl
  python3-jinja2            # the oracle of chat templates
  python3-dev pybind11-dev) # for `import tessera`
blas_packages=(libblis-serial-dev libblis-pthread-dev libblis-openmp-dev
  libopenblas-serial-dev libopenblas-pthread-dev)

# The page is tested in a browser where node can drive one; Debian's own node (18) cannot.
node_is_new_enough() {
  command -v node >/dev/null &&
    node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}
if node_is_new_enough; then test_packages+=(chromium fonts-dejavu-core); fi

case ${1:-} in
  '') ;;
  tests) packages+=("${test_packages[@]}") ;;
  *)
    echo "setup: error: unknown word '$1': use tests, or nothing" >&2
    exit 2
    ;;
esac

fail() {
  echo "setup: error: $*" >&2
  exit 1
}

installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    installed "$package" || echo "$package"
  done
  if [[ $(uname -m) == x86_64 ]]; then return; fi # products are our own there
  for package in "${blas_packages[@]}"; do
    if installed "$package"; then return; fi
  done
  echo blas
}

# apt-get with root rights, once more if the first try fails (mirrors hiccup); its words only then.
apt() {
  local -a command=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@")
  if [[ $(id -u) -ne 0 ]]; then command=(sudo "${command[@]}"); fi
  local log
  log=$(mktemp)
  if "${command[@]}" >"$log" 2>&1 || { sleep 3; "${command[@]}" >"$log" 2>&1; }; then
    rm -f "$log"
    return 0
  fi
  tail -n 20 "$log" >&2
  rm -f "$log"
  return 1
}

# BLIS where the distribution has it, else OpenBLAS.
blas_package() {
  if apt-cache show libblis-serial-dev >/dev/null 2>&1; then
    echo libblis-serial-dev
  else
    echo libopenblas-dev
  fi
}

install_missing() {
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    fail "these packages are missing: $*. Neither root nor sudo is available: ask an administrator to" \
      "run 'apt-get install $*' (blas: libblis-serial-dev or libopenblas-dev)."
  fi
  echo "setup: installing $*" >&2
  if [[ $(id -u) -ne 0 ]]; then
    sudo -v || fail "sudo was refused: run this as root, or as a user who may use sudo, once"
  fi
  apt update || fail "'apt-get update' failed: check the network and /etc/apt"
  local -a wanted=()
  local package
  for package in "$@"; do
    if [[ $package == blas ]]; then package=$(blas_package); fi
    wanted+=("$package")
  done
  apt install -y --no-install-recommends "${wanted[@]}" ||
    fail "'apt-get install ${wanted[*]}' failed: see the lines above"
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  fail "this script knows Debian and Ubuntu only. Install by hand: g++ >= 12, cmake >= 3.25, ninja," \
    "fmt, CLI11, nlohmann-json, toml++, zlib, Boost (headers), PCRE2, utf8proc, zstd, GoogleTest, python3, on other CPUs than x86-64 BLIS or OpenBLAS, and Open MPI if you" \
    "want to train across machines."

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -gt 0 ]]; then install_missing "${missing[@]}"; fi

cmake_version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
printf '3.25\n%s\n' "$cmake_version" | sort -V -C ||
  fail "cmake is $cmake_version: 3.25 or newer is needed (Debian 12 and Ubuntu 24.04 have it)"
