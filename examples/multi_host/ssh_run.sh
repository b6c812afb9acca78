#!/usr/bin/env bash
# Runs a command as one MPI job on machines that this one reaches with ssh without a password.
#
#   ssh_run.sh HOSTFILE NETWORK -- tessera train run.toml --comm-timeout 30
#
# HOSTFILE: one line per machine, "node1 slots=1": its name and how many ranks it takes. NETWORK: the
# one between them, as 10.77.0.0/24 or eth0. The command, the run file and its data must have the
# same path on every machine; the run directory must be shared, or be that of rank 0 alone.
#
#   SSH            what to call instead of ssh (default: ssh)
#   OUTPUT         folder for what each rank prints, a file per rank on the rank's own machine, so
#                  that a machine that is cut off still leaves its last words (default: none)
#   HOST_TIMEOUT   seconds without a sign of life after which mpirun gives a machine up (default:
#                  90). Keep it above --comm-timeout: the ranks know more about what they wait for.
#   MPIRUN_OPTIONS anything else, e.g. "-x NAME"
set -euo pipefail

if [[ $# -lt 4 || $3 != -- ]]; then
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
hostfile=$1 network=$2
shift 3
[[ -r $hostfile ]] || {
  echo "ssh_run: error: the hostfile '$hostfile' cannot be read" >&2
  exit 2
}

host_timeout=${HOST_TIMEOUT:-90}
options=(
  --hostfile "$hostfile"
  --bind-to none # a rank has many threads
  --tag-output
  --mca plm_rsh_agent "${SSH:-ssh}"
  --mca btl self,vader,tcp --mca pml ob1
  --mca btl_tcp_if_include "$network" --mca oob_tcp_if_include "$network"
  # mpirun itself notices a machine that is gone only by these.
  --mca oob_tcp_keepalive_time $((host_timeout - host_timeout / 3))
  --mca oob_tcp_keepalive_intvl $(((host_timeout + 8) / 9))
  --mca oob_tcp_keepalive_probes 3
)
if [[ -n ${OUTPUT:-} ]]; then options+=(--output-filename "$OUTPUT"); fi
read -ra more <<<"${MPIRUN_OPTIONS:-}"
exec mpirun "${options[@]}" ${more[@]+"${more[@]}"} "$@"
