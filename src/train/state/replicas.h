// What several ranks hold of the same state, and whether it is the same bytes everywhere: after a
// step all replicas have computed the same, so one that differs has made an error that nothing else
// shows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "train/state/state_layout.h"

namespace tessera {

// Not against an adversary; as fast as memory.
uint64_t hash_bytes(std::span<const std::byte> bytes);

struct HeldState {
  std::string what;  // the same on all ranks that hold it: "blocks.0.m 1 4096"
  uint64_t hash = 0;
};

// Weights (whole, where the rank has them whole) and the states of the optimizer. Between steps.
std::vector<HeldState> hash_state(const Executor& executor, const StepGraph& step);
// As text, to be sent, and back. Throws Error.
std::string text_of(const std::vector<HeldState>& held);
std::vector<HeldState> parse_held_state(const std::string& text);

// Whether any weight is held by more than one rank.
bool has_replicas(const StepGraph& step);

struct ReplicaDifference {
  std::string what;
  std::vector<int> holders;
  std::vector<int> odd;   // those that are not of the majority; all holders where there is none
  bool majority = false;  // more than half of the holders are equal
};
// The first difference, in the order in which ranks hold things. `ranks`: by rank.
std::optional<ReplicaDifference> find_difference(const std::vector<std::vector<HeldState>>& ranks);

}  // namespace tessera
