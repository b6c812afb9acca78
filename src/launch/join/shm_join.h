// Ranks of one host that were started one by one become a shared-memory world.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/shm/shm_world.h"
#include "comm/world.h"
#include "launch/rendezvous/rendezvous.h"

namespace tessera {

struct ShmJoinOptions {
  int rank = 0;
  int size = 1;
  int64_t bytes_per_rank = 0;                 // of shared memory, as in ShmMemoryOptions
  std::chrono::milliseconds timeout{30'000};  // for handing the memory over, after the rendezvous
  ShmWorldOptions world = {};                 // its fd and rank are filled in
};

// What is wrong with how a rank introduces itself (RendezvousOptions::objection); empty: nothing.
// `only_here`: it must be a live process of this user on this host, as where no token keeps
// strangers out.
std::string objection_to_presence(int rank, const std::string& text, bool only_here);

// Rank 0 makes the memory and hands its descriptor to the others, whose user and process it checks.
// Throws ConfigError on every rank when they are not on one host, naming who is where.
std::unique_ptr<CommWorld> join_shm_by_rendezvous(Rendezvous& rendezvous,
                                                  const ShmJoinOptions& options);

}  // namespace tessera
