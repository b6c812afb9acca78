// The coordinator (launch/hosts/coordinator.h) and its connections: lets in whoever knows the token
// of the run, hands on what agents say, and sends its orders.
//
// A visitor that says anything else than it should, or nothing, is dropped and noted; it holds up
// nobody. Visitors that have not shown that they know the token are few, and so are their bytes.
#pragma once

#include <functional>
#include <string>

#include "launch/hosts/coordinator.h"
#include "launch/unique_fd.h"

namespace tessera {

struct CoordinatorServerOptions {
  CoordinatorOptions coordinator;
  CoordinatorState state;  // from which it goes on
  std::string token;
};

// Until the run has ended and the agents have been told, or for at most some seconds after that.
// `listener` stays open.
RunEnd run_coordinator(const UniqueFd& listener, const CoordinatorServerOptions& options);

}  // namespace tessera
