// Ranks that were started one by one find each other: each gives a short text, all get all of them.
//
// Rank 0 listens, the others come to it. A rank with another token, world size or protocol version,
// with a payload that rank 0 does not accept, or one that is there already, is refused: it throws
// ConfigError with the reason, and rank 0 notes it and goes on. A rank that does not come within
// the timeout makes every rank throw CommError naming it. Connections that speak anything else are
// dropped; nothing they send can hang or hurt.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/environment.h"

namespace tessera {

struct RendezvousOptions {
  // All ranks of a run give the same. Keeps runs apart, and strangers out. It does not travel: each
  // side proves that it knows it.
  std::string token = {};
  // How long rank 0 waits for the others, and they for it. A rank that has found rank 0 waits as
  // long again for those that are still missing.
  std::chrono::milliseconds timeout{60'000};
  std::function<void(const std::string&)> on_note =
      nullptr;  // rank 0: who was refused; null: dropped
  // Rank 0: what is wrong with the payload of a rank; empty: nothing. Null: any will do.
  std::function<std::string(int rank, const std::string& payload)> objection = nullptr;
};

class Rendezvous {
 public:
  static constexpr size_t kMaxPayloadBytes = 16 * 1024;

  virtual ~Rendezvous() = default;
  // Every rank's payload, in order of rank. Once per object.
  virtual std::vector<std::string> exchange(int rank, int size, const std::string& payload) = 0;
};

// Rank 0 listens on `host`, on the first free port of [port, port + num_ports). Without a token
// every rank throws ConfigError: even this host's loopback is open to all of its users.
struct MeetingAddress {
  std::string host = {};
  int port = 0;
  int num_ports = 1;
};
std::unique_ptr<Rendezvous> rendezvous_at(MeetingAddress address, RendezvousOptions options);

// Rank 0 listens on a port that the system chooses and writes it to a new file at `path`, which all
// ranks see; it removes the file at the end. What a dead run left there is replaced; where the run
// may still be alive, rank 0 throws ConfigError. `only_here`: all ranks are on this host.
std::unique_ptr<Rendezvous> rendezvous_through_file(std::string path, RendezvousOptions options,
                                                    bool only_here = false);

// What the torchrun variables ask for; `options.token` is taken from them where it is empty. Ranks
// without one that are all on this host (LOCAL_WORLD_SIZE, or a loopback address) meet through a
// file that only their user can read, in a folder of that user's below `private_root`.
std::unique_ptr<Rendezvous> rendezvous_for(const LaunchContext& context, RendezvousOptions options,
                                           const std::string& private_root = "/tmp");

}  // namespace tessera
