// The tessera program.
#include <unistd.h>

#include "all_commands.h"
#include "cli/cli.h"
#include "serve/start/start_model.h"

int main(int argc, char** argv) {
  if (const auto rank = tessera::serve::run_as_served_rank(tessera::environment_from(environ))) {
    return *rank;
  }
  return tessera::run_program(argc, argv, tessera::add_all_commands);
}
