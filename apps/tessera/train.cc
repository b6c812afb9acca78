#include <memory>

#include "commands.h"
#include "flags.h"
#include "help.h"
#include "interrupt.h"
#include "train/plan_report.h"
#include "train/session.h"

namespace tessera {

Command add_train(CLI::App& root) {
  CLI::App* app = root.add_subcommand("train");
  set_help(*app, {"Train a model and compare what was measured with the plan.",
                  "tessera train examples/demo.toml --set train.steps=20",
                  "tessera generate --run runs/demo --prompt \"Once upon a time\""});
  auto options = std::make_shared<TrainCommandOptions>();
  options->source.add_file_and_set(*app);
  options->source.add_mesh(*app);
  options->source.add_ranks(*app);
  add_switch(*app, "--dry-run", options->dry_run, "check and plan only; writes nothing");
  add_switch(*app, "--json", options->json, "print the summary as JSON");
  hide(add_text(*app, "--inject", options->inject, "SPEC", "provoke a fault"));
  return {app, [options](Console& console) { return run_train(*options, console); }};
}

int run_train(const TrainCommandOptions& options, Console& console) {
  if (options.dry_run) {
    return run_plan({.source = options.source, .json = options.json}, console);
  }
  const InterruptGuard interrupt;
  ProgressLine line(console);
  TrainOptions train;
  train.spec = options.source.load();
  train.config_text = options.source.text();
  train.on_progress = [&](const TrainProgress& progress) { line.update(progress); };
  train.should_stop = [&] { return interrupt.interrupted(); };
  if (!options.inject.empty()) train.inject = parse_injection(options.inject);

  const TrainSummary summary = run_training(train);
  line.finish();
  if (options.json) {
    console.out << summary.measured.dump(2) << '\n';
  } else {
    console.out << planned_measured_table(summary.plan, summary.measured);
  }
  if (!summary.stopped) return 0;
  console.err << "tessera: stopped by ^C; what was done so far is in " << train.spec.logging.run_dir
              << std::endl;
  return kInterruptedCode;
}

}  // namespace tessera
