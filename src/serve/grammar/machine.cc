#include "serve/grammar/machine.h"

#include <algorithm>
#include <functional>

namespace tessera::serve::grammar {

Machine::Machine(const Rules& rules, int depth) : rules_(&rules) {
  calls_.push_back({0, 0, depth});
}

void Machine::start(ConfigSet& to) {
  to.assign(1, {rules_->rules[0].start, 0, 0});
  close(to);
}

// Only what can still be finished below the limit of depth.
void Machine::add(const Config& config, ConfigSet& to) const {
  if (rules_->states[config.state].height + calls_[config.call].depth <= rules_->text_depth) {
    to.push_back(config);
  }
}

// One more; where there is no limit, no more than the least matters.
uint32_t Machine::counted(uint32_t state, uint32_t count) const {
  const Rule& rule = rules_->rules[rules_->states[state].rule];
  return rule.max == kNoLimit ? std::min(count + 1, rule.min) : count + 1;
}

bool Machine::step(const ConfigSet& from, uint8_t byte, ConfigSet& to) {
  to.clear();
  for (const Config& config : from) {
    const RuleState& state = rules_->states[config.state];
    for (uint32_t i = state.first_edge; i < state.end_edge; ++i) {
      const RuleEdge& edge = rules_->edges[i];
      if (byte < edge.lo || byte > edge.hi) continue;
      Config next = {edge.target, config.count, config.call};
      if (edge.guard != Guard::kNone) {
        const Rule& rule = rules_->rules[state.rule];
        if (edge.guard == Guard::kEnough ? config.count < rule.min : config.count >= rule.max) {
          continue;
        }
        if (edge.guard == Guard::kCounts) next.count = counted(config.state, config.count);
      }
      add(next, to);
    }
  }
  return !to.empty() && close(to);
}

bool Machine::leave(uint32_t call, ConfigSet& to) {
  const auto begin = returns_.begin();
  to.assign(begin + calls_[call].first_return, begin + calls_[call].end_return);
  return close(to);
}

void Machine::add_calls(const Config& config) {
  const RuleState& state = rules_->states[config.state];
  for (uint32_t i = state.first_call; i < state.end_call; ++i) {
    const RuleCall& call = rules_->calls[i];
    const int height = rules_->states[call.target].height;
    if (height + calls_[config.call].depth > rules_->text_depth) continue;
    const uint32_t count = call.counts ? counted(config.state, config.count) : config.count;
    pending_.push_back(
        {rules_->rules[call.rule].level, call.rule, {call.target, count, config.call}});
    std::push_heap(pending_.begin(), pending_.end(), std::greater<>());
  }
}

// Ends the rules that may end here, then calls those that may begin: lower levels first, so that
// all that comes back from a call is known when it is made.
bool Machine::close(ConfigSet& to) {
  bool complete = false;
  left_.clear();
  for (size_t i = 0; i < to.size(); ++i) {
    const Config config = to[i];
    if (!rules_->states[config.state].final) continue;
    if (std::find(left_.begin(), left_.end(), config.call) != left_.end()) continue;
    left_.push_back(config.call);
    if (config.call == 0) complete = true;
    const Call& call = calls_[config.call];
    for (uint32_t j = call.first_return; j < call.end_return; ++j) to.push_back(returns_[j]);
  }
  std::sort(to.begin(), to.end());
  to.erase(std::unique(to.begin(), to.end()), to.end());
  for (const Config& config : to) add_calls(config);
  while (!pending_.empty()) {
    const uint32_t rule = pending_.front().rule;
    const Rule& called = rules_->rules[rule];
    const int depth = calls_[pending_.front().back.call].depth + (called.nests ? 1 : 0);
    Call call{.first_return = static_cast<uint32_t>(returns_.size()), .depth = depth};
    while (!pending_.empty() && pending_.front().rule == rule) {
      std::pop_heap(pending_.begin(), pending_.end(), std::greater<>());
      const Config back = pending_.back().back;
      pending_.pop_back();
      const bool known = returns_.size() > call.first_return && returns_.back() == back;
      if (!known) returns_.push_back(back);
    }
    call.end_return = static_cast<uint32_t>(returns_.size());
    const Config begin = {called.start, 0, static_cast<uint32_t>(calls_.size())};
    calls_.push_back(call);
    const size_t before = to.size();
    add(begin, to);
    if (to.size() > before) add_calls(begin);
  }
  std::erase_if(to, [&](const Config& config) {
    const RuleState& state = rules_->states[config.state];
    return state.first_edge == state.end_edge;
  });
  std::sort(to.begin(), to.end());
  return complete;
}

void Machine::forget(size_t mark) {
  if (calls_.size() <= mark) return;
  returns_.resize(calls_[mark].first_return);
  calls_.resize(mark);
}

void Machine::collect(ConfigSet& set) {
  if (calls_.size() < collect_at_) return;
  // Calls come back to older ones only: those that are needed are found from the last to the first,
  // and keep their order.
  std::vector<uint32_t> place(calls_.size(), 0);
  place[0] = 1;
  for (const Config& config : set) place[config.call] = 1;
  for (size_t i = calls_.size(); i-- > 0;) {
    if (place[i] == 0) continue;
    for (uint32_t j = calls_[i].first_return; j < calls_[i].end_return; ++j) {
      place[returns_[j].call] = 1;
    }
  }
  uint32_t kept_calls = 0, kept_returns = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (place[i] == 0) continue;
    Call call = calls_[i];
    const uint32_t first = kept_returns;
    for (uint32_t j = call.first_return; j < call.end_return; ++j) {
      Config back = returns_[j];
      back.call = place[back.call];
      returns_[kept_returns++] = back;
    }
    call.first_return = first;
    call.end_return = kept_returns;
    place[i] = kept_calls;
    calls_[kept_calls++] = call;
  }
  calls_.resize(kept_calls);
  returns_.resize(kept_returns);
  for (Config& config : set) config.call = place[config.call];
  std::sort(set.begin(), set.end());
  collect_at_ = std::max<size_t>(256, 2 * calls_.size());
}

}  // namespace tessera::serve::grammar
