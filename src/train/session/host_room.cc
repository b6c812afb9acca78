#include "train/session/host_room.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "launch/rendezvous/host_identity.h"

namespace tessera {
namespace {

// Ranks with the same place take from the same memory.
std::string place_of(const HostIdentity& host, const HostMemory& memory) {
  return memory.group.empty()
             ? host.boot
             : fmt::format("{} {} {}", host.boot, host.pid_namespace, memory.group);
}

std::map<std::string, HostShare> shares_of_all(Communicator& control, int64_t my_bytes) {
  const HostIdentity host = this_host();
  const HostMemory memory = host_memory();
  const nlohmann::json mine = {{"place", place_of(host, memory)},
                               {"host", host.name},
                               {"bytes", my_bytes},
                               {"total", memory.total_bytes},
                               {"available", memory.available_bytes},
                               {"group", memory.group}};
  std::map<std::string, HostShare> shares;
  for (const std::string& text : exchange_texts(control, mine.dump())) {
    const auto rank = nlohmann::json::parse(text);
    const HostMemory seen{.total_bytes = rank.at("total").get<int64_t>(),
                          .available_bytes = rank.at("available").get<int64_t>(),
                          .group = rank.at("group").get<std::string>()};
    HostShare& share = shares[rank.at("place").get<std::string>()];
    if (share.ranks == 0 || seen.available_bytes < share.memory.available_bytes) {
      share.memory = seen;
    }
    share.host = rank.at("host").get<std::string>();
    share.needed_bytes += rank.at("bytes").get<int64_t>();
    ++share.ranks;
  }
  return shares;
}

}  // namespace

void require_room_on_hosts(Communicator& control, int64_t my_bytes, const HostRefusal& refusal) {
  for (const auto& [place, share] : shares_of_all(control, my_bytes)) {
    if (share.needed_bytes <= share.memory.available_bytes) continue;
    const std::string numbers = fmt::format(
        "does not fit: the {} ranks on host {} need {} and can have {} there", share.ranks,
        share.host, human_bytes(share.needed_bytes), human_bytes(share.memory.available_bytes));
    throw Error(
        control.rank() == 0 ? fmt::format("on host {}: {}", share.host, refusal(share)) : numbers,
        ExitCode::kDoesNotFit);
  }
}

}  // namespace tessera
