// The world of ranks on several hosts: messages over TCP between all of them, and the shared memory
// of this host's agent, through which it watches its ranks and they watch each other.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/world.h"
#include "launch/environment.h"

namespace tessera {

struct HostsWorldOptions {
  std::chrono::milliseconds timeout{60'000};
  std::function<void(const std::string&)> on_warning = nullptr;
};

// `board`: the memory of the agent, to which this rank is attached. Connects the ranks. Throws
// CommError naming those that did not come.
std::unique_ptr<CommWorld> make_hosts_world(std::unique_ptr<CommWorld> board,
                                            const LaunchContext& context,
                                            const HostsWorldOptions& options);

// Where ranks and agent tell each other how things go: of a world as above its board, else the
// world itself.
CommWorld& board_of(CommWorld& world);

}  // namespace tessera
