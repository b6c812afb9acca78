#include "launch/join/shm_join.h"

#include <unistd.h>

#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "launch/agent/handover.h"
#include "launch/rank_list.h"
#include "launch/rendezvous/host_identity.h"
#include "launch/unique_fd.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// What a rank says of itself at the rendezvous, one field per line.
struct Presence {
  HostIdentity host;
  int64_t pid = 0;
  int64_t user = 0;
  std::string desk;  // rank 0: where it hands out the memory
};

std::string to_text(const Presence& presence) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", presence.host.name, presence.host.boot,
                     presence.host.pid_namespace, presence.host.net_namespace, presence.pid,
                     presence.user, presence.desk);
}

int64_t number(int rank, std::string_view text) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(failure == std::errc() && end == text.data() + text.size(),
          "rank {} introduced itself with {} where a number should be: start all ranks from the "
          "same build",
          rank, in_quotes(text));
  return value;
}

Presence parse_presence(int rank, std::string_view text) {
  constexpr size_t kFields = 7;
  const std::vector<std::string_view> fields = split(text, '\n');
  require(fields.size() == kFields,
          "rank {} introduced itself with {} lines instead of {}: start all ranks from the same "
          "build",
          rank, fields.size(), kFields);
  return {.host = {.name = shortened(fields[0]),
                   .boot = std::string(fields[1]),
                   .pid_namespace = std::string(fields[2]),
                   .net_namespace = std::string(fields[3])},
          .pid = number(rank, fields[4]),
          .user = number(rank, fields[5]),
          .desk = std::string(fields[6])};
}

struct Place {
  HostIdentity host;
  std::vector<int> ranks;
};

std::vector<Place> places_of(const std::vector<Presence>& everybody) {
  std::vector<Place> places;
  for (size_t rank = 0; rank < everybody.size(); ++rank) {
    const HostIdentity& host = everybody[rank].host;
    auto place = places.begin();
    while (place != places.end() && !place->host.same_place(host)) ++place;
    if (place == places.end()) place = places.insert(place, {.host = host, .ranks = {}});
    place->ranks.push_back(static_cast<int>(rank));
  }
  return places;
}

void require_one_host(const std::vector<Presence>& everybody) {
  const std::vector<Place> places = places_of(everybody);
  if (places.size() == 1) return;
  std::string where;
  for (const Place& place : places) {
    const bool first = where.empty();
    const bool namesake = !first && place.host.name == places.front().host.name;
    where += fmt::format("{}{}{} on host {}{}", first ? "" : ", ", rank_list(place.ranks),
                         first ? (place.ranks.size() == 1 ? " is" : " are") : "", place.host.name,
                         namesake ? " (in another container or machine of that name)" : "");
  }
  throw ConfigError(where + ": start them with mpirun or srun (docs/multi-machine.md)");
}

void require_one_user(const std::vector<Presence>& everybody) {
  for (size_t rank = 1; rank < everybody.size(); ++rank) {
    require_config(everybody[rank].user == everybody[0].user,
                   "rank {} runs as user {} and rank 0 as user {}: start all ranks as one user",
                   rank, everybody[rank].user, everybody[0].user);
  }
}

// Whether there is such a process; a number that is too large for one must not be taken for
// another.
bool is_process(int64_t pid) {
  return pid > 0 && pid <= std::numeric_limits<pid_t>::max() &&
         start_time_of(static_cast<pid_t>(pid)).has_value();
}

// Rank 0's memory, or the reason why there is none, goes to everybody.
ShmMemory make_and_serve(HandoverDesk& desk, const std::vector<pid_t>& pids,
                         const ShmJoinOptions& options, Deadline deadline) {
  std::optional<ShmMemory> memory;
  try {
    memory.emplace(
        ShmMemory::create({.ranks = options.size, .bytes_per_rank = options.bytes_per_rank}));
  } catch (const Error& error) {
    desk.serve(pids, -1, error.what(), deadline);
    throw;
  }
  desk.serve(pids, memory->fd(), "", deadline);
  return std::move(*memory);
}

}  // namespace

std::string objection_to_presence(int rank, const std::string& text, bool only_here) {
  try {
    const Presence presence = parse_presence(rank, text);
    if (!only_here) return "";
    const HostIdentity here = this_host();
    require(presence.host.same_place(here),
            "it says that it is on host {}, and rank 0 is on {}: start ranks of several hosts with "
            "mpirun or srun (docs/multi-machine.md)",
            presence.host.name, here.name);
    require(presence.user == ::geteuid(), "it says that it runs as user {}, and rank 0 as user {}",
            presence.user, ::geteuid());
    require(is_process(presence.pid), "it says that it is process {}, and there is none",
            presence.pid);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<CommWorld> join_shm_by_rendezvous(Rendezvous& rendezvous,
                                                  const ShmJoinOptions& options) {
  // Before the exchange, so that it is open when the others learn its name.
  std::optional<HandoverDesk> desk;
  if (options.rank == 0) desk.emplace();
  const Presence mine = {.host = this_host(),
                         .pid = ::getpid(),
                         .user = ::geteuid(),
                         .desk = desk ? desk->name() : ""};
  std::vector<Presence> everybody;
  std::vector<pid_t> pids;
  for (const std::string& text : rendezvous.exchange(options.rank, options.size, to_text(mine))) {
    everybody.push_back(parse_presence(static_cast<int>(everybody.size()), text));
    pids.push_back(static_cast<pid_t>(everybody.back().pid));
  }
  require_one_host(everybody);
  require_one_user(everybody);

  const Deadline deadline = Clock::now() + options.timeout;
  ShmWorldOptions world = options.world;
  world.rank = options.rank;
  if (desk) {
    const ShmMemory memory = make_and_serve(*desk, pids, options, deadline);
    world.fd = memory.fd();
    return attach_shm_world(world);
  }
  const UniqueFd fd = fetch_handover(everybody[0].desk, pids[0], options.rank, deadline);
  world.fd = fd.get();
  return attach_shm_world(world);
}

}  // namespace tessera
