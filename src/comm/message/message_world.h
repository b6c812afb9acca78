// A world whose ranks exchange messages: every collective is the schedule of its algorithm
// (collective/schedule.h), executed step by step over a Transport. The network is the transport's
// business alone: MPI and the tests' in-process queues run the same code here.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "collective/selection.h"
#include "comm/call_watcher.h"
#include "comm/message/transport.h"
#include "comm/world.h"

namespace tessera {

struct MessageWorldOptions {
  std::string backend = "message";              // what CommWorld::backend() says
  std::chrono::milliseconds timeout{60'000};    // longest wait for a peer inside one collective
  std::chrono::milliseconds slow_after{5'000};  // a wait this long is reported once
  std::function<void(const std::string&)> on_warning = {};  // "rank 2 is late: …"; null: dropped
  CallWatcher* watcher = nullptr;  // must outlive the world; null: nobody watches
  Selection selection = {};        // what Algorithm::kAuto means; the same on all ranks
};

// Tells the peers when it goes: whoever still waits for this rank then fails at once. The transport
// is destroyed last.
std::unique_ptr<CommWorld> make_message_world(std::unique_ptr<Transport> transport,
                                              MessageWorldOptions options);

}  // namespace tessera
