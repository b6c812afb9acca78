// One program in several roles: the tests start it again as the rank of a server or of a toy one, and
// as a process that has such ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <thread>

#include "base/error.h"
#include "launch/environment.h"
#include "serve/ranks/rank_process.h"
#include "serve/start/start_model.h"
#include "serve/testing/toy_ranks.h"

extern char** environ;

namespace tessera::serve::testing {
namespace {

int run_as_rank() {
  const Environment environment = environment_from(environ);
  const auto fault = environment.find("TESSERA_FAULT");
  return run_rank_process(detect_launch(environment),
                          parse_faults(fault == environment.end() ? "" : fault->second),
                          make_toy_worker);
}

// Says who its ranks are, and computes until it is killed.
int run_as_front() {
  ToyMesh mesh{.tp = 2, .pp = 2};
  ProcessFrameRunner runner(toy_options(mesh));
  for (int rank = 0; rank < mesh.ranks(); ++rank) std::cout << "rank " << runner.pid(rank) << "\n";
  std::cout << "ready" << std::endl;
  uint64_t number = 1;
  const std::vector<int32_t> text = {1, 2, 3};
  while (true) (void)generate_alone(runner, text, 16, 2, number);
}

}  // namespace
}  // namespace tessera::serve::testing

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  try {
    if (role == "--as-toy-rank") return tessera::serve::testing::run_as_rank();
    if (role == "--as-toy-front") return tessera::serve::testing::run_as_front();
    const auto rank = tessera::serve::run_as_served_rank(tessera::environment_from(environ));
    if (rank) return *rank;
  } catch (const tessera::Error& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return static_cast<int>(error.code());
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
