// The tessera program. It is also every rank of a model that it serves by processes.
#include <unistd.h>

#include "all_commands.h"
#include "cli/cli.h"
#include "launch/environment.h"
#include "serve/start/start_model.h"

int main(int argc, char** argv) {
  const tessera::Environment environment = tessera::environment_from(environ);
  if (const auto code = tessera::serve::run_as_served_rank(environment)) return *code;
  return tessera::run_program(argc, argv, tessera::add_all_commands);
}
