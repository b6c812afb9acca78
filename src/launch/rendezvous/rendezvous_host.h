// Rank 0's side of a rendezvous.
#pragma once

#include <string>
#include <vector>

#include "launch/rendezvous/rendezvous.h"
#include "launch/unique_fd.h"

namespace tessera {

// Waits on `listener` for ranks 1 … size-1 and gives every rank's payload to all of them.
// `place` is where they come to, for messages.
std::vector<std::string> host_rendezvous(const UniqueFd& listener, const std::string& place,
                                         int size, const std::string& payload,
                                         const RendezvousOptions& options);

}  // namespace tessera
