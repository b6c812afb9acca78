// How the ranks of one generation connect, each with each: every rank listens on a socket that the
// agent of its host has opened, and goes to the ranks before it. Both sides show that they have the
// key of the generation, which the agents work out from the token of the run.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/tcp/tcp_transport.h"
#include "launch/environment.h"

namespace tessera {

// What only the ranks of that generation have.
std::string mesh_key(const std::string& token, uint64_t run, uint64_t generation);

struct RankMeshOptions {
  std::chrono::milliseconds timeout{60'000};                  // for all to be there
  std::function<void(const std::string&)> on_note = nullptr;  // who was refused; null: dropped
};

// A peer for every rank of the world, with its socket. Takes the listener of the context. Throws
// CommError naming the ranks that did not come.
std::vector<TcpPeer> connect_ranks(const LaunchContext& context, const RankMeshOptions& options);

}  // namespace tessera
