#!/usr/bin/env bash
# Compiles everything of CUDA and links it into the program in place of the stubs, on a machine
# without a GPU. What a build without CUDA compiled already is not compiled again.
# Usage: tools/check_cuda.sh [--wanted] BUILD
#   BUILD      folder of a whole build without CUDA
#   --wanted   only say by the exit code whether there is something to check: nvcc, and CUDA is not in BUILD
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

wanted=
if [[ ${1:-} == --wanted ]]; then
  wanted=1
  shift
fi
if [[ $# -ne 1 || ! -e $1/build.ninja ]]; then
  echo "check_cuda: error: give the folder of a build" >&2
  exit 2
fi
build=$(cd "$1" && pwd -P)
if [[ -n $wanted ]]; then
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || exit 1
  ! grep -q '\.cu\.o:' "$build/build.ninja"
  exit
fi

folder=$build/cuda
started=$SECONDS
cmake -S "$root" -B "$folder" -G Ninja -DTESSERA_CUDA=on -DTESSERA_WERROR=ON

# The bodies, their tests and their benchmarks.
mapfile -t objects < <(ninja -C "$folder" -t targets all |
  sed -n 's/^\([^:]*\/cuda[/_][^:]*\.o\): .*/\1/p' | grep -v /absent/)
mapfile -t bodies < <(printf '%s\n' "${objects[@]}" | grep '^src/' | grep -v '_test\.cc\.o$')
ninja -C "$folder" -j "$(nproc)" "${bodies[@]}"
# ninja would first build the whole program for a test: only its own command.
compile() {
  mkdir -p "$(dirname "$2/$1")"
  cd "$2"
  bash -c "$(ninja -t commands "$1" | tail -n 1)"
}
export -f compile
printf '%s\n' "${objects[@]}" | grep -vxFf <(printf '%s\n' "${bodies[@]}") |
  xargs -P "$(nproc)" -I '{}' bash -c 'compile "$1" "$2"' _ '{}' "$folder"

# The link of the program as it would be with CUDA, over the libraries of BUILD. Stubs there lie in
# the same object as other code may: what comes first counts.
link=$(ninja -C "$folder" -t commands bin/tessera | tail -n 1)
[[ $link == *" -o bin/tessera "* ]]
cd "$build"
bash -c "${link/ -o bin\/tessera / ${bodies[*]/#/$folder/} -Wl,-z,muldefs -o $folder/tessera_linked }"
"$folder/tessera_linked" --version >/dev/null
echo "check_cuda: ${#objects[@]} sources compiled, and linked, in $((SECONDS - started)) s"
