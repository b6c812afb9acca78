// prepare.json: how far an unfinished `data prepare` is.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/work_unit.h"

namespace tessera {

struct PrepareState {
  nlohmann::json job;  // inputs and options: the same job continues
  InputPlace place;
  int64_t line = 1;  // of JSON lines, at the place
  int64_t num_empty = 0, num_bad = 0;
  std::vector<nlohmann::json> sets = {};  // SetWriter::save()
};

std::filesystem::path state_path(const std::filesystem::path& out);
// None: there is no such file. Throws ConfigError where it is damaged.
std::optional<PrepareState> read_state(const std::filesystem::path& out);
void write_state(const std::filesystem::path& out, const PrepareState& state);

// What a state is compared by.
nlohmann::json json_of(const std::vector<PrepareInput>& inputs);
// What differs between two jobs, for people; empty: nothing.
std::string job_difference(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace tessera
