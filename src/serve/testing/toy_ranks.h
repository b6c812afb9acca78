// For tests: ranks that compute a token from all tokens before it, through a cache of pages and a
// world of stages and parts as real ones do, so that whatever goes wrong on the way changes it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/ranks/process_frame_runner.h"
#include "serve/ranks/rank_worker.h"

namespace tessera::serve::testing {

struct ToyMesh {
  int tp = 1;
  int pp = 1;
  [[nodiscard]] int ranks() const { return tp * pp; }
  [[nodiscard]] int sampling_rank() const { return (pp - 1) * tp; }
};

ServeShape toy_shape(const ToyMesh& mesh);
std::string toy_task(const ToyMesh& mesh);

// What comes after `text`.
int32_t toy_token_after(std::span<const int32_t> text, int64_t vocab);

std::unique_ptr<RankWorker> make_toy_worker(const RankSetup& setup);

// This test program as the ranks (main_test.cc); `fault` as in TESSERA_FAULT.
ProcessRunnerOptions toy_options(const ToyMesh& mesh, const std::string& fault = "");

// The whole text as chunks of `chunk` tokens, then `more` tokens one by one, as a lone request is
// computed; returns those.
std::vector<int32_t> generate_alone(FrameRunner& runner, std::span<const int32_t> text, int more,
                                    int chunk, uint64_t& number);

}  // namespace tessera::serve::testing
