// What was measured of the frames of serving on one machine, found by op, type, threads and tokens.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "serve/predict/frame_terms.h"

namespace tessera::serve {

class FrameRates {
 public:
  explicit FrameRates(const MeasuredMachine& machine);

  [[nodiscard]] bool empty() const { return by_tokens_.empty(); }
  // Whether frames in this type were measured: products are most of them.
  [[nodiscard]] bool has(DType type) const;

  // Seconds of one unit of each term. Between measured numbers of tokens in proportion; beyond the
  // last one every token more takes its share. The nearest number of threads stands in for one that
  // was not measured. None: neither the op nor its class was.
  [[nodiscard]] std::optional<TimeTerms> of(const Instruction& instruction, DType type, int threads,
                                            int64_t tokens) const;
  [[nodiscard]] std::optional<TimeTerms> of(const std::string& op, DType type, int threads,
                                            int64_t tokens) const;

  // What frames miss that read so many bytes again and again, with so many threads at work.
  [[nodiscard]] MissShares misses(int threads, double bytes) const;

 private:
  using Tokens = std::map<int, TimeTerms>;
  [[nodiscard]] const Tokens* find(const std::string& op, DType type, int threads,
                                   int& measured_threads) const;

  const MeasuredMachine& machine_;
  std::map<std::tuple<std::string, DType, int>, Tokens> by_tokens_;
};

// What the host does around the instructions of a frame: of one rank, and of several, with all that
// they tell each other.
std::string host_work(int64_t ranks, std::string_view ranks_are);

}  // namespace tessera::serve
