// Test support: worlds of ranks over a QueueNetwork, one thread each.
#pragma once

#include <memory>
#include <vector>

#include "comm/message/message_world.h"
#include "comm/testing/local_ranks.h"
#include "comm/testing/queue_transport.h"

namespace tessera::testing {

// Runs f(world) on every rank; returns what each threw, as run_ranks does.
inline std::vector<std::string> run_message_ranks(QueueNetwork& network, int ranks,
                                                  const MessageWorldOptions& options,
                                                  const std::function<void(CommWorld&)>& f) {
  return run_ranks(ranks, [&](int rank) {
    const auto world = make_message_world(network.transport(rank), options);
    f(*world);
  });
}

inline MessageWorldOptions patient() { return {.timeout = std::chrono::seconds(20)}; }

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tessera::testing
