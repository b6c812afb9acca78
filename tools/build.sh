# Sourced by ./demo and ./test: phases with a line each, and the build. Needs `root`, the checkout.

# phase NAME LOG COMMAND...: runs COMMAND with its output in LOG, prints NAME and the time it took,
# and on failure the end of LOG. On a terminal the last "[3/40] ..." of the log shows the progress.
phase() {
  local name=$1 log=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  local started=$SECONDS
  "$@" >"$log" 2>&1 &
  local pid=$! status=0
  # A background command does not see ^C.
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  if [[ -t 2 ]]; then
    while kill -0 "$pid" 2>/dev/null; do
      printf '\r\033[K%-10s %s' "$name" "$(sed -n 's/^\(\[[0-9]*\/[0-9]*\]\).*/\1/p' "$log" | tail -n 1)" >&2
      sleep 0.3
    done
    printf '\r\033[K' >&2
  fi
  wait "$pid" || status=$?
  trap - INT TERM
  if [[ $status -ne 0 ]]; then
    echo "$name failed after $((SECONDS - started)) s (exit code $status); the end of $log:" >&2
    tail -n 40 "$log" >&2
    return "$status"
  fi
  printf '%-10s %4d s\n' "$name" $((SECONDS - started)) >&2
}

# Compilers need about 1 GiB each: fewer at a time than cores where memory is short.
build_jobs() {
  local cores gib
  cores=$(nproc)
  gib=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
  echo $((gib >= 1 && gib < cores ? gib : (gib < 1 ? 1 : cores)))
}

# configure DIR [cmake options]: starts afresh when DIR was configured for another checkout.
configure() {
  local dir=$1
  shift
  local home
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$dir/CMakeCache.txt" 2>/dev/null || true)
  if [[ -n $home && $home != "$root" ]]; then rm -rf "$dir/CMakeCache.txt" "$dir/CMakeFiles"; fi
  cmake -S "$root" -B "$dir" -G Ninja "$@"
}

# set_up_and_build DIR TARGET [cmake options]
set_up_and_build() {
  local dir=$1 target=$2
  shift 2
  local started=$SECONDS
  bash "$root/tools/setup.sh" # in the foreground: it may ask for a password
  printf '%-10s %4d s\n' setup $((SECONDS - started)) >&2
  phase configure "$dir/configure.log" configure "$dir" "$@"
  phase build "$dir/build.log" cmake --build "$dir" --target "$target" -j "$(build_jobs)"
}
