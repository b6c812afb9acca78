#include "cli/surroundings.h"

#include <algorithm>
#include <thread>

#include "cli/read_text.h"
#include "train/machine_defaults.h"

namespace tessera {

Surroundings console_surroundings() {
  return {.read = read_text,
          .use_machine = [](RunSpec& spec) { return use_machine_defaults(spec); },
          .use_host =
              [](serve::ServeOptions& options) {
                const ServingShare share = serving_share(options.tp * options.pp);
                if (options.threads == 0) options.threads = share.threads;
                if (options.memory_bytes == 0) options.memory_bytes = share.memory_bytes;
              },
          .threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U)),
          .progress = {}};
}

}  // namespace tessera
