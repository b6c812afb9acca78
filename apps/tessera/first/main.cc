// What ./demo shows first: the commands that lead to a trained model, which are built in less time
// than all of them.
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "data/data_command.h"
#include "plan/plan_command.h"
#include "train/train_command.h"

namespace {

std::vector<tessera::Command> add_first_commands(CLI::App& root,
                                                 const tessera::Environment& environment) {
  std::vector<tessera::Command> commands = tessera::add_data(root);
  commands.push_back(tessera::add_plan(root));
  commands.push_back(tessera::add_train(root, environment));
  return commands;
}

}  // namespace

int main(int argc, char** argv) { return tessera::run_program(argc, argv, add_first_commands); }
