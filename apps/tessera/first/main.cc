// What ./demo shows first: the commands that lead to a trained model, which are built in less time
// than all of them.
#include <unistd.h>

#include <utility>
#include <vector>

#include "cli/cli.h"
#include "plan/plan_command.h"
#include "serve/start/start_model.h"
#include "train/data_command.h"
#include "train/generate_command.h"
#include "train/train_command.h"

namespace {

std::vector<tessera::Command> add_first_commands(CLI::App& root,
                                                 const tessera::Environment& environment) {
  std::vector<tessera::Command> commands = tessera::add_data(root);
  commands.push_back(tessera::add_plan(root));
  commands.push_back(tessera::add_train(root, environment));
  commands.push_back(tessera::add_generate(root));
  return commands;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto rank = tessera::serve::run_as_served_rank(tessera::environment_from(environ))) {
    return *rank;
  }
  return tessera::run_program(argc, argv, add_first_commands);
}
