// The tessera program.
#include "all_commands.h"
#include "cli/cli.h"

int main(int argc, char** argv) {
  return tessera::run_program(argc, argv, tessera::add_all_commands);
}
