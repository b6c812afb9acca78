#!/usr/bin/env bash
# Several "hosts" on one machine, for trying multi-machine runs without several machines. Each host
# is a network namespace with its own address (10.77.0.K) on a common switch, its own host name
# (nodeK) and its own /dev/shm, so that MPI treats the hosts as different machines.
#
#   netns_hosts.sh run N -- COMMAND...   makes N hosts, runs COMMAND beside them, removes them
#   eval "$(netns_hosts.sh up N)"        makes N hosts that stay until 'down'
#   netns_hosts.sh exec HOST COMMAND...  runs COMMAND on node1 … nodeN
#   netns_hosts.sh cut HOST              pulls the host's cable: packets vanish, nothing is reset
#   netns_hosts.sh heal HOST             plugs it in again
#   netns_hosts.sh down                  ends what 'up' made, and every process on its hosts
#   netns_hosts.sh ssh HOST COMMAND...   as ssh calls it: mpirun --mca plm_rsh_agent "THIS ssh"
#   netns_hosts.sh check                 says why hosts cannot be made here, or exits 0
#
# exec, cut and heal work in the COMMAND of 'run', on every host, and after 'up'. Needs iproute2 and
# root, or a system where users may make namespaces. Everything lives in namespaces of its own that
# end with the process that made them, however it ends: there is nothing to clean up, and any number
# of runs live side by side.
set -euo pipefail

self=$(readlink -f "${BASH_SOURCE[0]}")

fail() {
  echo "netns_hosts: error: $*" >&2
  exit 2
}

usage() {
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$self"
}

# Options of unshare that give a normal user the rights of root inside.
user_namespace() {
  if [[ $(id -u) -ne 0 ]]; then echo "--user --map-root-user"; fi
}

check() {
  local tool
  for tool in ip unshare nsenter setpriv; do
    command -v "$tool" >/dev/null || fail "'$tool' is not installed: it is in iproute2 or util-linux"
  done
  # shellcheck disable=SC2046
  unshare $(user_namespace) --net --mount --uts --pid --fork --mount-proc \
    ip link add probe type bridge 2>/dev/null ||
    fail "this system does not let this user make network namespaces: run as root"
}

valid_count() {
  [[ ${1:-} =~ ^[0-9]+$ && $1 -ge 1 && $1 -le 250 ]] || fail "the number of hosts is '${1:-}': give 1 to 250"
}

# --- the outside: one process that owns the namespaces -------------------------------------------

run_hosts() {
  local count=${1:-}
  valid_count "$count"
  [[ ${2:-} == -- && $# -ge 3 ]] || fail "usage: netns_hosts.sh run N -- COMMAND..."
  check
  # Whichever way this script ends, the first process inside is killed, and with it its namespaces.
  # shellcheck disable=SC2046
  setpriv --pdeathsig KILL unshare $(user_namespace) --net --mount --uts --pid --fork \
    --kill-child --mount-proc "$self" inside "$@" <&0 &
  local owner=$!
  trap 'kill -KILL $owner 2>/dev/null' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  local status=0
  wait "$owner" || status=$?
  trap - EXIT
  exit "$status"
}

up() {
  local ready owner
  valid_count "${1:-}"
  check
  ready=$(mktemp -u)
  mkfifo "$ready"
  # shellcheck disable=SC2064
  trap "rm -f '$ready'" EXIT
  # shellcheck disable=SC2016
  setsid "$self" run "$1" -- sh -c 'echo ready >"$0" && exec sleep infinity' "$ready" \
    </dev/null >/dev/null &
  owner=$!
  timeout 20 cat "$ready" >/dev/null || { kill "$owner"; fail "the hosts did not come up"; }
  echo "export TESSERA_HOSTS=$owner"
}

child_of() {
  local -a children
  read -ra children <"/proc/$1/task/$1/children" || true
  echo "${children[0]:?netns_hosts: error: process $1 has no child}"
}

# The first process inside, seen from outside: script -> unshare -> it.
first_inside() {
  child_of "$(child_of "$1")"
}

down() {
  [[ ${TESSERA_HOSTS:-} =~ ^[0-9]+$ ]] || fail "TESSERA_HOSTS is not set: nothing was brought up"
  kill "$TESSERA_HOSTS" 2>/dev/null || fail "process $TESSERA_HOSTS is gone already"
  local tries
  for ((tries = 0; tries < 100; ++tries)); do
    kill -0 "$TESSERA_HOSTS" 2>/dev/null || break
    sleep 0.05
  done
  echo "unset TESSERA_HOSTS"
}

# Runs this script again inside the namespaces of 'up', where it is not there yet.
go_inside() {
  if [[ ${TESSERA_HOSTS:-} == inside ]]; then return; fi
  [[ ${TESSERA_HOSTS:-} =~ ^[0-9]+$ ]] ||
    fail "there are no hosts: use 'run N -- COMMAND', or eval \"\$(netns_hosts.sh up N)\" first"
  local pid
  pid=$(first_inside "$TESSERA_HOSTS")
  # shellcheck disable=SC2046
  TESSERA_HOSTS=inside exec nsenter --target "$pid" $(entering_user "$pid") --net --mount --uts --pid \
    --wd=. "$self" "$@"
}

entering_user() {
  if [[ $(readlink "/proc/$1/ns/user") != "$(readlink /proc/self/ns/user)" ]]; then
    echo "--user --preserve-credentials"
  fi
}

# --- the inside: a switch, and per host a process that holds its namespaces -----------------------

# The table of hosts is the /etc/hosts of the namespaces: "10.77.0.2 node2 # pid 17".
holder_of() {
  awk -v host="$1" '$2 == host { print $5; found = 1 } END { exit !found }' /etc/hosts ||
    fail "there is no host '$1': there are $(awk '$4 == "pid" { printf "%s ", $2 }' /etc/hosts)"
}

add_host() {
  local host=node$1 address=10.77.0.$1 holder
  unshare --net --uts --mount sleep infinity &
  holder=$!
  # Wait until it is in namespaces of its own.
  until [[ $(readlink "/proc/$holder/ns/mnt") != "$(readlink /proc/self/ns/mnt)" &&
    $(readlink "/proc/$holder/exe") == */sleep ]]; do
    kill -0 "$holder" || fail "the namespaces of $host could not be made"
    sleep 0.01
  done
  ip link add "$host" type veth peer name eth0 netns "$holder"
  ip link set "$host" master switch up
  echo "$address $host # pid $holder" >>/etc/hosts
  nsenter --target "$holder" --net --uts --mount sh -c "
    hostname $host
    mount -t tmpfs -o size=1g tmpfs /dev/shm
    ip link set lo up
    ip address add $address/24 dev eth0
    ip link set eth0 up"
}

inside() {
  local count=$1 host
  shift 2
  hostname switch
  mount -t tmpfs tmpfs /dev/shm
  echo "127.0.0.1 localhost" >/dev/shm/hosts
  mount --bind /dev/shm/hosts /etc/hosts
  ip link set lo up
  ip link add switch type bridge
  ip link set switch up
  for ((host = 1; host <= count; ++host)); do add_host "$host"; done
  export TESSERA_HOSTS=inside
  "$@"
}

exec_on() {
  local holder
  [[ $# -ge 2 ]] || fail "usage: netns_hosts.sh exec HOST COMMAND..."
  holder=$(holder_of "$1")
  shift
  # Open MPI refuses root, which everyone is in here.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  exec nsenter --target "$holder" --net --uts --mount --wd=. "$@"
}

# The switch's end of the cable is in the namespace of the first process, whoever asks.
plug() {
  holder_of "$1" >/dev/null
  nsenter --target 1 --net ip link set "$1" "${@:2}"
}

command=${1:-}
shift || true
case $command in
  run) run_hosts "$@" ;;
  up) up "$@" ;;
  down) down ;;
  check) check ;;
  inside) inside "$@" ;;
  exec) go_inside exec "$@" && exec_on "$@" ;;
  ssh) go_inside ssh "$@" && exec_on "${1:-}" sh -c "${*:2}" ;;
  cut) go_inside cut "$@" && plug "${1:-}" nomaster ;;
  heal) go_inside heal "$@" && plug "${1:-}" master switch ;;
  help | --help | -h) usage ;;
  *) usage >&2 && exit 2 ;;
esac
