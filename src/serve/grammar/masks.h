// Which tokens may come in a state of a rule, remembered: the part of a mask that does not depend
// on what is around the rule.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "serve/grammar/machine.h"
#include "serve/grammar/rules.h"
#include "serve/grammar/token_bytes.h"

namespace tessera::serve::grammar {

struct LocalMask {
  std::vector<int32_t> tokens;  // that may come; where there are many, `bits` has them instead
  std::vector<uint32_t> bits;
  // Nodes of the trie where the rule has ended, and tokens go on.
  std::vector<uint32_t> exits;
};

// Thread-safe. `rules` and `tokens` outlive it.
class LocalMasks {
 public:
  LocalMasks(const Rules& rules, const TokenBytes& tokens, int64_t most_bytes)
      : rules_(rules), tokens_(tokens), most_bytes_(most_bytes) {}

  // `depth` lists and objects are open.
  std::shared_ptr<const LocalMask> find(uint32_t state, uint32_t count, int depth);
  [[nodiscard]] int64_t bytes() const;

 private:
  // What of a state no token can tell apart is one key.
  struct Key {
    uint32_t state = 0;
    uint32_t missing = 0, room = 0;  // until the least, and the most, of what is counted
    uint32_t depth_left = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  [[nodiscard]] Key key_of(uint32_t state, uint32_t count, int depth) const;
  [[nodiscard]] LocalMask of_leaf(uint32_t state, uint32_t count) const;
  [[nodiscard]] LocalMask of_any(uint32_t state, uint32_t count, int depth) const;
  void pack(LocalMask& mask) const;

  const Rules& rules_;
  const TokenBytes& tokens_;
  int64_t most_bytes_;
  mutable std::mutex mutex_;
  int64_t bytes_ = 0;
  std::unordered_map<Key, std::shared_ptr<const LocalMask>, Hash> known_;
};

}  // namespace tessera::serve::grammar
