# Sourced by ./demo and ./test: phases with a line each, and the build. Needs `root`, the checkout.

# in_minutes SECONDS: "45 s" or "2 min 05 s".
in_minutes() {
  if (($1 < 60)); then printf '%d s' "$1"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}

# progress LOG SECONDS: "35 of 86, 40%, 1 min 10 s; about 1 min 40 s left" from the last "[35/86] ..."
# of a build's LOG. What a step takes is learned from the steps so far; before, from what they took here.
progress() {
  local steps done total left
  steps=$(tail -c 20000 "$1" 2>/dev/null | sed -n 's/^\[\([0-9]*\)\/\([0-9]*\)\].*/\1 \2/p' | tail -n 1)
  read -r done total <<<"${steps:-0 0}"
  if ((total < 2)); then
    in_minutes "$2"
    return
  fi
  local usual=$((4000 / $(build_jobs))) assumed=10 # milliseconds of a step; steps that it counts for
  left=$(((total - done) * ($2 * 1000 + assumed * usual) / (done + assumed) / 1000))
  printf '%d of %d, %d%%, %s; about %s left' "$done" "$total" $((100 * done / total)) \
    "$(in_minutes "$2")" "$(in_minutes "$left")"
}

# phase NAME LOG COMMAND...: runs COMMAND with its output in LOG, prints NAME and the time it took,
# and on failure the end of LOG. Meanwhile the progress, in one line on a terminal, else in a line
# every half a minute.
phase() {
  local name=$1 log=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  local started=$SECONDS said=$SECONDS
  "$@" >"$log" 2>&1 &
  local pid=$! status=0
  # A background command does not see ^C.
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    if [[ -t 2 ]]; then
      printf '\r\033[K%-10s %s' "$name" "$(progress "$log" $((SECONDS - started)))" >&2
    elif ((SECONDS - said >= 30)); then
      said=$SECONDS
      printf '%-10s %s\n' "$name" "$(progress "$log" $((SECONDS - started)))" >&2
    fi
    sleep 0.5
  done
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
  wait "$pid" || status=$?
  trap - INT TERM
  if [[ $status -ne 0 ]]; then
    echo "$name failed after $((SECONDS - started)) s (exit code $status); the end of $log:" >&2
    tail -n 40 "$log" >&2
    return "$status"
  fi
  printf '%-10s %4d s\n' "$name" $((SECONDS - started)) >&2
}

# at_most_gib NUMBER: NUMBER, or as many as there are GiB of free memory where those are fewer; 1 at least.
at_most_gib() {
  local gib
  gib=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
  echo $((gib < 1 ? 1 : (gib < $1 ? gib : $1)))
}

# Compilers need about 1 GiB each.
build_jobs() { at_most_gib "$(nproc)"; }

# More than cores: most tests of processes wait, for ranks, timeouts and leases. A few take a GiB.
test_jobs() { at_most_gib $((2 * $(nproc) + 2)); }

# configure DIR TARGET [cmake options]: starts afresh when DIR was configured for another checkout. A
# new folder is built from nothing, so several sources are compiled as one, and without tests if TARGET
# does not ask for them; a folder that somebody configured stays as it is.
configure() {
  local dir=$1 target=$2
  shift 2
  local home
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$dir/CMakeCache.txt" 2>/dev/null || true)
  if [[ -n $home && $home != "$root" ]]; then rm -rf "$dir/CMakeCache.txt" "$dir/CMakeFiles"; fi
  local -a options=()
  if [[ ! -e $dir/CMakeCache.txt ]]; then
    options=(-DTESSERA_UNITY=ON -DTESSERA_TESTS=OFF -DTESSERA_BENCH=OFF -DTESSERA_EXAMPLES=OFF)
  fi
  if [[ $target == all ]]; then
    options+=(-DTESSERA_TESTS=ON -DTESSERA_BENCH=ON -DTESSERA_EXAMPLES=ON)
  fi
  cmake -S "$root" -B "$dir" -G Ninja ${options[@]+"${options[@]}"} "$@"
}

# set_up_and_build DIR TARGET [cmake options]: TARGET is all, with what tests need, or a program.
set_up_and_build() {
  local dir=$1 target=$2
  shift 2
  local started=$SECONDS
  local -a parts=()
  if [[ $target == all ]]; then parts=(tests); fi
  bash "$root/tools/setup.sh" ${parts[@]+"${parts[@]}"} # in the foreground: it may ask for a password
  printf '%-10s %4d s\n' setup $((SECONDS - started)) >&2
  phase configure "$dir/configure.log" configure "$dir" "$target" "$@"
  # ninja itself, not through cmake: it stops its compilers when it is told to end.
  phase build "$dir/build.log" ninja -C "$dir" -j "$(build_jobs)" "$target"
  local warnings
  warnings=$(grep -c 'warning:' "$dir/build.log" || true)
  if ((warnings > 0)); then echo "build      $warnings warnings: see $dir/build.log" >&2; fi
}
