#!/usr/bin/env bash
# Runs a command as one MPI job on machines that this one reaches with ssh without a password.
#
#   ssh_run.sh HOSTFILE NETWORK -- tessera train run.toml --comm-timeout 30
#
# HOSTFILE: one line per machine, "node1 slots=1": its name and how many ranks it takes. NETWORK: the
# one between them, as 10.77.0.0/24 or eth0. The command, the run file and its data must have the
# same path on every machine.
#
#   SSH             what to call instead of ssh (default: ssh)
#   OUTPUT          folder for what each rank prints, a file per rank on the rank's own machine: one
#                   that is cut off still leaves its last words there (default: none)
#   HOST_TIMEOUT    seconds without a sign of life after which mpirun gives a machine up, and the job
#                   with it (default: 90). Ranks that wait say earlier for whom.
#   MPIRUN_OPTIONS  anything else, e.g. "-x NAME"
set -euo pipefail

if [[ $# -lt 4 || $3 != -- ]]; then
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
hostfile=$1 network=$2 host_timeout=${HOST_TIMEOUT:-90}
shift 3
[[ -r $hostfile ]] || {
  echo "ssh_run: error: the hostfile '$hostfile' cannot be read" >&2
  exit 2
}

# shellcheck disable=SC2054
options=(
  --hostfile "$hostfile"
  --bind-to none # a rank has many threads
  --mca plm_rsh_agent "${SSH:-ssh}"
  --mca btl self,vader,tcp --mca pml ob1
  --mca btl_tcp_if_include "$network" --mca oob_tcp_if_include "$network"
  # Silence, then three questions without an answer.
  --mca oob_tcp_keepalive_time $((host_timeout - host_timeout / 3))
  --mca oob_tcp_keepalive_intvl $(((host_timeout + 8) / 9))
  --mca oob_tcp_keepalive_probes 3
)
if [[ -n ${OUTPUT:-} ]]; then options+=(--output-filename "$OUTPUT"); fi
read -ra more <<<"${MPIRUN_OPTIONS:-}"

# When a rank has ended the job, mpirun waits until every machine confirms, and for one that is gone
# as long as TCP keeps trying: a quarter of an hour. It gets HOST_TIMEOUT.
relay_errors() {
  local line
  while IFS= read -r line; do
    printf '%s\n' "$line" >&2
    if [[ $line == "MPI_ABORT was invoked"* ]]; then kill -USR1 $$; fi
  done
}

end_later() {
  trap - USR1
  sleep "$host_timeout"
  echo "ssh_run: mpirun still waits for a machine after $host_timeout s: it is ended" >&2
  kill -KILL "$job"
}

trap 'if [[ -z ${ending:-} ]]; then end_later & ending=$!; fi' USR1
trap : INT # mpirun gets the terminal's too
trap 'kill -TERM $job' TERM HUP
exec {errors}> >(relay_errors)
relay=$!
mpirun "${options[@]}" ${more[@]+"${more[@]}"} "$@" 2>&"$errors" {errors}>&- &
job=$!
exec {errors}>&-
status=0
while kill -0 "$job" 2>/dev/null; do # a trap ends a wait
  wait "$job" 2>/dev/null || true
done
wait "$job" 2>/dev/null || status=$?
if [[ -n ${ending:-} ]]; then kill "$ending" 2>/dev/null || true; fi
for ((i = 0; i < 20; ++i)); do # its last lines
  kill -0 "$relay" 2>/dev/null || break
  sleep 0.05
done
exit "$status"
