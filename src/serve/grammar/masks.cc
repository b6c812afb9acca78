#include "serve/grammar/masks.h"

#include <algorithm>
#include <utility>

namespace tessera::serve::grammar {
namespace {

int64_t size_of(const LocalMask& mask) {
  return std::ssize(mask.tokens) * 4 + std::ssize(mask.bits) * 4 + std::ssize(mask.exits) * 4 + 128;
}

}  // namespace

size_t LocalMasks::Hash::operator()(const Key& key) const {
  uint64_t hash = key.state;
  for (const uint32_t part : {key.missing, key.room, key.depth_left}) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

LocalMasks::Key LocalMasks::key_of(uint32_t state, uint32_t count, int depth) const {
  const Rule& rule = rules_.rules[rules_.states[state].rule];
  // A token counts and opens no more than it has bytes.
  const uint32_t far = tokens_.longest() + 1;
  Key key{.state = state};
  key.missing = count < rule.min ? std::min(rule.min - count, far) : 0;
  key.room = rule.max == kNoLimit ? far : std::min(rule.max - count, far);
  if (!rule.is_leaf) {
    const auto left = static_cast<uint32_t>(rules_.text_depth - depth);
    key.depth_left = std::min(left, far + rules_.most_height);
  }
  return key;
}

std::shared_ptr<const LocalMask> LocalMasks::find(uint32_t state, uint32_t count, int depth) {
  const Key key = key_of(state, count, depth);
  const std::lock_guard lock(mutex_);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const bool leaf = rules_.rules[rules_.states[state].rule].is_leaf;
  auto mask =
      std::make_shared<LocalMask>(leaf ? of_leaf(state, count) : of_any(state, count, depth));
  pack(*mask);
  if (bytes_ + size_of(*mask) > most_bytes_) {
    known_.clear();
    bytes_ = 0;
  }
  bytes_ += size_of(*mask);
  known_.emplace(key, mask);
  return mask;
}

int64_t LocalMasks::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

// The same as of_any() for a rule that calls nothing: a text is in one state for each state that it
// began in, unless two edges take the same byte, which rules of scalars never have.
LocalMask LocalMasks::of_leaf(uint32_t state, uint32_t count) const {
  const auto nodes = tokens_.nodes();
  const Rule& rule = rules_.rules[rules_.states[state].rule];
  LocalMask mask;
  std::vector<std::pair<uint32_t, uint32_t>> at(tokens_.longest() + 1);  // by bytes read
  at[0] = {state, count};
  for (uint32_t i = 0; i < nodes.size();) {
    const TokenBytes::Node& node = nodes[i];
    const auto [from, counted] = at[node.depth - 1U];
    const RuleState& left = rules_.states[from];
    const RuleEdge* taken = nullptr;
    for (uint32_t j = left.first_edge; j < left.end_edge && taken == nullptr; ++j) {
      const RuleEdge& edge = rules_.edges[j];
      if (node.byte < edge.lo || node.byte > edge.hi) continue;
      taken = &edge;
    }
    if (taken == nullptr || (taken->guard == Guard::kEnough && counted < rule.min) ||
        (taken->guard == Guard::kCounts && counted >= rule.max)) {
      i = node.skip;
      continue;
    }
    uint32_t next = counted;
    if (taken->guard == Guard::kCounts) {
      next = rule.max == kNoLimit ? std::min(counted + 1, rule.min) : counted + 1;
    }
    at[node.depth] = {taken->target, next};
    const auto ended = tokens_.tokens_at(i);
    mask.tokens.insert(mask.tokens.end(), ended.begin(), ended.end());
    if (rules_.states[taken->target].final && node.skip > i + 1) mask.exits.push_back(i);
    ++i;
  }
  return mask;
}

LocalMask LocalMasks::of_any(uint32_t state, uint32_t count, int depth) const {
  const auto nodes = tokens_.nodes();
  Machine machine(rules_, depth);
  LocalMask mask;
  std::vector<ConfigSet> at(tokens_.longest() + 1);
  std::vector<size_t> marks(tokens_.longest() + 1, machine.mark());
  at[0] = {{state, count, 0}};
  for (uint32_t i = 0; i < nodes.size();) {
    const TokenBytes::Node& node = nodes[i];
    machine.forget(marks[node.depth - 1U]);
    const bool ended = machine.step(at[node.depth - 1U], node.byte, at[node.depth]);
    marks[node.depth] = machine.mark();
    if (ended || !at[node.depth].empty()) {
      const auto written = tokens_.tokens_at(i);
      mask.tokens.insert(mask.tokens.end(), written.begin(), written.end());
    }
    if (ended && node.skip > i + 1) mask.exits.push_back(i);
    i = at[node.depth].empty() ? node.skip : i + 1;
  }
  return mask;
}

void LocalMasks::pack(LocalMask& mask) const {
  const size_t words = (static_cast<size_t>(tokens_.size()) + 31) / 32;
  if (mask.tokens.size() <= words) {
    mask.tokens.shrink_to_fit();
    return;
  }
  mask.bits.assign(words, 0);
  for (const int32_t token : mask.tokens) {
    mask.bits[static_cast<size_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
  }
  mask.tokens = {};
}

}  // namespace tessera::serve::grammar
