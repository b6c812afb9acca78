// What a request needs from the outside. Nothing in this folder opens a file, asks the machine or
// reads a clock: whoever calls passes it in.
#pragma once

#include <functional>
#include <string>

#include "search/search.h"
#include "serve/plan/serve_options.h"
#include "spec/file_reader.h"
#include "spec/run_spec.h"

namespace tessera {

struct Surroundings {
  // Opens the files that a request names. Not set: there are none but those in "files".
  FileReader read = {};
  // Fills what a run without a cluster takes from the machine it is planned on: device, threads and
  // memory of a rank. Says whose memory that is; nothing where the run says how much a rank has.
  // Not set: such a run must say all of it.
  std::function<std::string(RunSpec&)> use_machine = {};
  // Fills the threads and the memory that ranks which serve would have on this machine. Not set:
  // such a request must say both, or name a cluster.
  std::function<void(serve::ServeOptions&)> use_host = {};
  int threads = 1;           // of a search that does not say how many
  OnProgress progress = {};  // of a search
};

}  // namespace tessera
