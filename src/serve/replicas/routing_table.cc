#include "serve/replicas/routing_table.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/error.h"
#include "base/hash.h"

namespace tessera::serve {
namespace {

uint64_t bit_of(int replica) { return uint64_t{1} << static_cast<unsigned>(replica); }

}  // namespace

RoutingTable::RoutingTable(const RoutingOptions& options) : options_(options) {
  require_config(options.replicas >= 1 && options.replicas <= kMostReplicas,
                 "{} replicas: use 1 to {}", options.replicas, kMostReplicas);
  TESSERA_CHECK(options.block_tokens >= 1 && options.most_blocks >= 1, "{} blocks of {} tokens",
                options.most_blocks, options.block_tokens);
}

// Whole blocks, and no more of them than can be remembered.
std::vector<uint64_t> RoutingTable::keys(std::span<const int32_t> prompt,
                                         std::string_view salt) const {
  const auto size = static_cast<size_t>(options_.block_tokens);
  const size_t count = std::min(prompt.size() / size, options_.most_blocks);
  std::vector<uint64_t> keys;
  keys.reserve(count);
  Hasher hasher;
  hasher.add(salt);
  for (size_t block = 0; block < count; ++block) {
    for (const int32_t token : prompt.subspan(block * size, size)) hasher.add(token);
    keys.push_back(hasher.value());
  }
  return keys;
}

std::vector<int64_t> RoutingTable::known(std::span<const int32_t> prompt,
                                         std::string_view salt) const {
  std::vector<int64_t> tokens(static_cast<size_t>(options_.replicas), 0);
  uint64_t all_so_far = ~uint64_t{0};
  for (const uint64_t key : keys(prompt, salt)) {
    const auto found = places_.find(key);
    if (found == places_.end()) break;
    all_so_far &= found->second->replicas;
    for (uint64_t left = all_so_far; left != 0; left &= left - 1) {
      tokens[static_cast<size_t>(std::countr_zero(left))] += options_.block_tokens;
    }
    if (all_so_far == 0) break;
  }
  return tokens;
}

void RoutingTable::sent(int replica, std::span<const int32_t> prompt, std::string_view salt) {
  TESSERA_CHECK(replica >= 0 && replica < options_.replicas, "replica {} of {}", replica,
                options_.replicas);
  const std::vector<uint64_t> all = keys(prompt, salt);
  // From the end on, so that beginnings, which more prompts share, are forgotten last.
  for (auto key = all.rbegin(); key != all.rend(); ++key) {
    const auto found = places_.find(*key);
    if (found != places_.end()) {
      blocks_.splice(blocks_.begin(), blocks_, found->second);
    } else {
      blocks_.push_front({.key = *key, .replicas = 0});
      places_[*key] = blocks_.begin();
    }
    blocks_.front().replicas |= bit_of(replica);
  }
  while (blocks_.size() > options_.most_blocks) {
    places_.erase(blocks_.back().key);
    blocks_.pop_back();
  }
}

void RoutingTable::forget(int replica) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    block->replicas &= ~bit_of(replica);
    const auto next = std::next(block);
    if (block->replicas == 0) {
      places_.erase(block->key);
      blocks_.erase(block);
    }
    block = next;
  }
}

std::vector<int> order_of_replicas(std::span<const ReplicaSight> replicas) {
  std::vector<int> order;
  for (size_t i = 0; i < replicas.size(); ++i) {
    if (replicas[i].answers) order.push_back(static_cast<int>(i));
  }
  const auto cost = [&](int replica) {
    const ReplicaSight& sight = replicas[static_cast<size_t>(replica)];
    return sight.load_tokens - kWorthOfKnown * sight.known_tokens;
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cost(a) < cost(b); });
  return order;
}

}  // namespace tessera::serve
