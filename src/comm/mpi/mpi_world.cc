#include "comm/mpi/mpi_world.h"

#include <utility>

#include "comm/message/message_world.h"
#include "comm/mpi/mpi_transport.h"

namespace tessera {

bool mpi_available() { return true; }

std::unique_ptr<CommWorld> make_mpi_world(const MpiWorldOptions& options) {
  auto transport =
      std::make_unique<MpiTransport>(MpiTransportOptions{.start_timeout = options.start_timeout,
                                                         .timeout = options.timeout,
                                                         .on_warning = options.on_warning});
  return make_message_world(std::move(transport), {.backend = "mpi",
                                                   .timeout = options.timeout,
                                                   .slow_after = options.slow_after,
                                                   .on_warning = options.on_warning});
}

}  // namespace tessera
