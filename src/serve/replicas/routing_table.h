// Which replica was sent the beginning of a prompt before, so that its prefix cache may have it.
// Pure and bounded: it remembers the most recently sent blocks, and of a prompt the beginning
// longer than the rest. A wrong answer costs time, never a token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::serve {

inline constexpr int kMostReplicas = 64;

struct RoutingOptions {
  int replicas = 1;
  int64_t block_tokens = 16;   // of a page: caches share no less
  size_t most_blocks = 65536;  // that are remembered, of all replicas together
};

class RoutingTable {
 public:
  explicit RoutingTable(const RoutingOptions& options);

  // How many tokens at the beginning of `prompt` each replica was sent before: whole blocks.
  // Prompts of different salts have nothing in common.
  [[nodiscard]] std::vector<int64_t> known(std::span<const int32_t> prompt,
                                           std::string_view salt) const;
  void sent(int replica, std::span<const int32_t> prompt, std::string_view salt);
  // What the replica had is gone.
  void forget(int replica);

  [[nodiscard]] size_t blocks() const { return blocks_.size(); }

 private:
  struct Block {
    uint64_t key = 0;       // a hash of all tokens up to its end
    uint64_t replicas = 0;  // a bit for each
  };
  using Blocks = std::list<Block>;

  [[nodiscard]] std::vector<uint64_t> keys(std::span<const int32_t> prompt,
                                           std::string_view salt) const;

  RoutingOptions options_;
  Blocks blocks_;  // the most recently sent first
  std::unordered_map<uint64_t, Blocks::iterator> places_;
};

// What is known of a replica when a request comes.
struct ReplicaSight {
  bool answers = false;
  int64_t known_tokens = 0;  // of the prompt
  int64_t load_tokens = 0;   // that it still has to compute for others
};

// How many tokens of load a known token makes up for: a prompt goes where its beginning is, unless
// many others have gone there before.
inline constexpr int64_t kWorthOfKnown = 4;

// Those that answer, the best first; of equal ones the one with the lowest number.
std::vector<int> order_of_replicas(std::span<const ReplicaSight> replicas);

}  // namespace tessera::serve
