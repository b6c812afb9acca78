#include "plan/plan_request.h"

#include "cli/flags.h"

namespace tessera {

void add_split(CLI::App& app, SplitFlags& request) {
  add_text(app, "--model", request.model, "NAME|DIR",
           "this model, without a run file: a preset, a .toml file, a Hugging Face folder");
  add_text(
      app, "--recipe", request.recipe, "NAME|FILE",
      "a published recipe instead of a model, a cluster and a split: see tessera presets recipes");
  add_text(app, "--engine", request.engine, "NAME|FILE",
           "whose time it is: see tessera presets engines (default tessera)");
  for (SplitFlags::Size& size : request.sizes) {
    add_count_text(app, size.flag, size.value, size.help);
  }
  add_switch(app, "--sequence-parallel", request.sequence_parallel,
             "split activations between products over tp");
  for (SplitFlags::Word& word : request.words) {
    add_text(app, word.flag, word.value, word.kind, word.help);
  }
}

void add_failures(CLI::App& app, FailureFlags& failures) {
  add_text(app, "--mtbf-device", failures.mtbf_device, "TIME",
           "with --tokens: time between failures of one device (default 50000h)");
  add_text(app, "--save", failures.save, "TIME",
           "with --tokens: how long training stands still in a save (default: by its bytes)");
  add_text(app, "--restart", failures.restart, "TIME",
           "with --tokens: from a failure until training goes on (default 5min)");
}

void add_request(CLI::App& app, SplitFlags& request) {
  add_text(app, "--cluster", request.cluster, "NAME",
           "price it on this cluster: h100-16384, dgx-a100, or a .toml file");
  add_split(app, request);
  add_count(app, "--tokens", request.tokens, "days and device-hours for so many tokens: 15T");
}

}  // namespace tessera
