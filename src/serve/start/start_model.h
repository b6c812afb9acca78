// A model that answers in this process, wherever its ranks are: what `serve`, `chat`, `generate`
// and `bench decode` begin with.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launch/environment.h"
#include "serve/api/asked.h"
#include "serve/api/words.h"
#include "serve/batch/batch_options.h"
#include "serve/generator.h"
#include "serve/plan/serve_options.h"
#include "serve/plan/serve_plan.h"
#include "serve/replicas/restarting_generator.h"

namespace tessera::serve {

struct StartOptions {
  ServeOptions ranks;  // of one replica
  int replicas = 1;    // dp: each has the whole model
  // Ranks are processes of this host, tied to this one; else threads of it.
  bool processes = false;
  int restarts = 0;  // of each replica, where ranks are processes
  // What ranks run, where they are processes; empty: this program. Its main() calls
  // run_as_served_rank().
  std::string program = {};
  std::string name = {};  // that requests give for the model; empty: that of its folder
  BatchOptions batch;
  int64_t most_waiting = 256;  // requests of a replica; one more is refused
  // Stands for the folder's chat template, where it is not empty.
  std::filesystem::path chat_template = {};
  std::filesystem::path tokenizer = {};  // a folder, in place of the model's own
  Environment environment = {};          // of processes
  std::filesystem::path trace = {};      // of frames, with processes: written where it ends
  // Lines for people: what starts, what was lost. Null: they are not said.
  std::function<void(const std::string&)> say = nullptr;
  std::function<bool()> cancelled = nullptr;  // nobody waits for it any longer
};

class StartedModel {
 public:
  virtual ~StartedModel() = default;
  [[nodiscard]] virtual Generator& generator() = 0;
  // The plan of one replica; its options have no 0 that stands for something else.
  [[nodiscard]] virtual const ServePlan& plan() const = 0;
  // As requests are checked against it: name, words, end tokens, grammar.
  [[nodiscard]] virtual const ServedModel& served() const = 0;
  // Nothing: it goes on. Else why no replica will answer again.
  [[nodiscard]] virtual std::optional<GeneratorLoss> gave_up() const = 0;
};

// Returns when all ranks are ready. Throws ConfigError for what cannot be served, Error with
// ExitCode::kDoesNotFit where the memory is too small, and what loading weights throws.
std::unique_ptr<StartedModel> start_model(StartOptions options);

// The exit code where this process was started to be a rank of such a model, which it then was;
// nothing where it was not. main() asks before anything else.
std::optional<int> run_as_served_rank(const Environment& environment);

}  // namespace tessera::serve
