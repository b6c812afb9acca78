// One published run: what it says, as a question to the cost model.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cost/step/cost_model.h"

namespace tessera {

struct PublishedRun {
  std::string id;
  std::string family;  // the first two parts of the id
  Workload workload;
  Strategy strategy;
  std::vector<Guess> guesses;     // what the entry leaves out, and what was taken
  bool memory_is_certain = true;  // nothing that memory depends on was guessed

  // Measured; absent where the entry does not give it.
  std::optional<double> step_s;
  std::vector<double> rank_bytes;  // highest allocation, by global rank
  std::optional<double> last_rank_bytes;
  std::optional<double> peak_bytes;  // of the fullest rank, as a tool outside the engine shows it
};

// "sc21-t1-1.7B" -> "sc21-t1".
std::string family_of(const std::string& id);

// Throws ConfigError with the reason where the entry is no run that the cost model can price.
PublishedRun run_of_entry(const nlohmann::json& entry);

}  // namespace tessera
