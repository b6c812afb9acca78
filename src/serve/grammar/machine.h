// Where a text stands in rules: all that it may be in the middle of, at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "serve/grammar/rules.h"

namespace tessera::serve::grammar {

// A state, what its rule has counted, and which call of the rule this is.
struct Config {
  uint32_t state = 0;
  uint32_t count = 0;
  uint32_t call = 0;
  auto operator<=>(const Config&) const = default;
};

// Ascending, without repetitions; each can be left by a byte.
using ConfigSet = std::vector<Config>;

// Calls of one rule that begin at the same byte are one, however many come back from it (a
// graph-structured stack): JSON has no two readings of its brackets, so that a set never has more
// members than the rules have states. Copies are independent.
class Machine {
 public:
  // Call 0 is that of the first rule; `depth` lists and objects are open around it. `rules` must
  // outlive the machine.
  Machine(const Rules& rules, int depth);

  // The beginning of the text.
  void start(ConfigSet& to);
  // After one more byte; `to` is empty where it may not come. True where call 0 has been completed:
  // the text may end.
  bool step(const ConfigSet& from, uint8_t byte, ConfigSet& to);
  // What comes after the call of `from` is complete; true as above.
  bool leave(uint32_t call, ConfigSet& to);

  // Calls that were made since mark() are forgotten.
  [[nodiscard]] size_t mark() const { return calls_.size(); }
  void forget(size_t mark);
  // Calls that nothing leads back to are forgotten, where there are many.
  void collect(ConfigSet& set);

  [[nodiscard]] int depth_of(uint32_t call) const { return calls_[call].depth; }
  [[nodiscard]] const Rules& rules() const { return *rules_; }

 private:
  struct Call {
    uint32_t first_return = 0, end_return = 0;  // in returns_
    int depth = 0;
  };
  struct Pending {
    uint32_t level = 0;
    uint32_t rule = 0;
    Config back;
    auto operator<=>(const Pending&) const = default;
  };
  void add(const Config& config, ConfigSet& to) const;
  [[nodiscard]] uint32_t counted(uint32_t state, uint32_t count) const;
  bool close(ConfigSet& to);
  void add_calls(const Config& config);

  const Rules* rules_;
  std::vector<Call> calls_;
  ConfigSet returns_;
  std::vector<Pending> pending_;  // used inside close() alone
  std::vector<uint32_t> left_;    // the same
  size_t collect_at_ = 256;
};

}  // namespace tessera::serve::grammar
