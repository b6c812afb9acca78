// One published run: what it says, as a question to the cost model.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cost/step/cost_model.h"

namespace tessera {

struct PublishedRun {
  std::string id;
  std::string family;  // the first two parts of the id
  std::string engine;  // whose constants the workload has
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

// What is taken instead of the catalogue's: to see what other constants would give.
struct PublishedConstants {
  std::optional<Engine> engine = {};  // of all entries; none: of the one that each names
  // By the catalogue's name; none: the catalogue's own.
  std::function<Engine(const std::string& name)> find_engine = {};
  std::function<Cluster(const std::string& name)> find_cluster = {};
};

// Priced with the constants of the engine that the entry names. Throws ConfigError with the reason
// where the entry is no run that the cost model can price.
PublishedRun run_of_entry(const nlohmann::json& entry, const PublishedConstants& constants = {});

}  // namespace tessera
