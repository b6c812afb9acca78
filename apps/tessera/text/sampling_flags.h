// Flags that say how an answer is chosen, token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "serve/api/asked.h"

namespace tessera {

// What is below 0 was not said.
struct SamplingFlags {
  int64_t tokens = -1;
  double temperature = -1;
  int64_t top_k = -1;
  double top_p = -1;
  double min_p = -1;
  std::vector<std::string> stops;
  int64_t seed = -1;
};

// `tokens`: what help says of --tokens.
void add_sampling_flags(CLI::App& app, SamplingFlags& flags, const std::string& tokens);
// Throws ConfigError for shares above 1.
void check_sampling(const SamplingFlags& flags);

// One answer to `prompt`, of at most `max_tokens`; what was not said is as people write with a
// model: temperature 0.8, seed 1.
std::shared_ptr<const serve::Asked> ask_one(const SamplingFlags& flags,
                                            const serve::ServedModel& model, serve::Shape shape,
                                            std::vector<int32_t> prompt, int64_t max_tokens);

// Fills in what a request of a file leaves open: what was said, and the seed, which is another one
// on every line of the file and the same whenever it is run.
void fill_request(const SamplingFlags& flags, int64_t line, nlohmann::ordered_json& body);

}  // namespace tessera
