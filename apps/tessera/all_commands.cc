#include "all_commands.h"

#include <utility>

#include "bench/bench.h"
#include "checkpoint/checkpoint_command.h"
#include "data/data_command.h"
#include "metrics/metrics_command.h"
#include "plan/plan_command.h"
#include "presets/explain_command.h"
#include "presets/presets_command.h"
#include "search/search_command.h"
#include "serve/serve_command.h"
#include "show/show_command.h"
#include "simulate/simulate_command.h"
#include "studio/studio_command.h"
#include "text/chat_command.h"
#include "text/generate_command.h"
#include "train/calibrate_command.h"
#include "train/doctor_command.h"
#include "train/eval_command.h"
#include "train/export_command.h"
#include "train/train_command.h"
#include "train/verify_command.h"

namespace tessera {

std::vector<Command> add_all_commands(CLI::App& root, const Environment& environment) {
  std::vector<Command> commands;
  commands.push_back(add_plan(root));
  commands.push_back(add_simulate(root));
  commands.push_back(add_search(root));
  commands.push_back(add_train(root, environment));
  commands.push_back(add_metrics(root, environment));
  commands.push_back(add_studio(root, environment));
  commands.push_back(add_verify(root));
  commands.push_back(add_eval(root));
  commands.push_back(add_generate(root));
  commands.push_back(add_chat(root));
  commands.push_back(add_serve(root, environment));
  commands.push_back(add_export_hf(root));
  for (Command& command : add_checkpoint(root)) commands.push_back(std::move(command));
  for (Command& command : add_data(root)) commands.push_back(std::move(command));
  for (Command& command : add_bench(root, environment)) commands.push_back(std::move(command));
  commands.push_back(add_calibrate(root, environment));
  for (Command& command : add_explain(root)) commands.push_back(std::move(command));
  for (Command& command : add_show(root)) commands.push_back(std::move(command));
  for (auto add : {add_presets, add_doctor}) commands.push_back(add(root));
  return commands;
}

}  // namespace tessera
