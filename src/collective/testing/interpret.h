// Test support: executes the schedules of all ranks on plain vectors, in a random order that the
// rules of schedule.h allow, and reports every breach of those rules. A send completes only when
// its receive is posted, so a schedule that relies on buffering shows up as a deadlock.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "collective/schedule.h"

namespace tessera::testing {

// What one rank passes to a call; `in` and `out` may point into each other's vectors.
template <typename T>
struct RankBuffers {
  T* in = nullptr;
  T* out = nullptr;
};

template <typename T>
class Interpreter {
 public:
  // `mean`: divides where a sum is complete.
  Interpreter(const std::vector<CollectiveSchedule>& schedules, std::vector<RankBuffers<T>> buffers,
              T poison, bool mean, uint32_t seed)
      : schedules_(schedules), buffers_(std::move(buffers)), mean_(mean), random_(seed) {
    for (const CollectiveSchedule& schedule : schedules_) {
      scratch_.emplace_back(static_cast<size_t>(schedule.scratch_count), poison);
      done_.emplace_back(schedule.steps.size(), false);
    }
  }

  void run() {
    for (size_t rank = 0; rank < schedules_.size(); ++rank) check_independent(rank);
    while (!finished()) {
      bool moved = false;
      for (const size_t rank : shuffled(schedules_.size())) moved |= advance(rank);
      if (!moved) throw std::runtime_error("deadlock");
    }
  }

 private:
  using Step = CollectiveStep;

  struct Range {
    const T* begin;
    const T* end;
    bool written;
  };

  std::vector<size_t> shuffled(size_t size) {
    std::vector<size_t> order(size);
    for (size_t i = 0; i < size; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  T* at(size_t rank, StepPlace place) {
    if (place.buffer == StepBuffer::kScratch) return scratch_[rank].data() + place.begin;
    return (place.buffer == StepBuffer::kIn ? buffers_[rank].in : buffers_[rank].out) + place.begin;
  }

  bool finished() const {
    return std::all_of(done_.begin(), done_.end(), [](const std::vector<bool>& rank) {
      return std::all_of(rank.begin(), rank.end(), [](bool done) { return done; });
    });
  }

  // The steps of the first round that is not complete, those not done, in the order listed.
  std::vector<size_t> open_steps(size_t rank) const {
    std::vector<size_t> open;
    const std::vector<Step>& steps = schedules_[rank].steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!open.empty() && steps[i].round != steps[open.front()].round) break;
      if (!done_[rank][i]) open.push_back(i);
    }
    return open;
  }

  // The first open message of `rank` with `peer`.
  const Step* next_message(size_t rank, StepAction action, size_t peer, size_t* index) const {
    for (const size_t i : open_steps(rank)) {
      const Step& step = schedules_[rank].steps[i];
      if (step.action != action || step.peer != static_cast<int>(peer)) continue;
      *index = i;
      return &step;
    }
    return nullptr;
  }

  bool advance(size_t rank) {
    const std::vector<size_t> open = open_steps(rank);
    for (const size_t choice : shuffled(open.size())) {
      const Step& step = schedules_[rank].steps[open[choice]];
      if (step.action == StepAction::kReceive) continue;  // the sender moves it
      if (step.action == StepAction::kSend) {
        if (deliver(rank, static_cast<size_t>(step.peer))) return true;
        continue;
      }
      compute(rank, step);
      done_[rank][open[choice]] = true;
      return true;
    }
    return false;
  }

  bool deliver(size_t from, size_t to) {
    size_t sent = 0;
    size_t received = 0;
    const Step* send = next_message(from, StepAction::kSend, to, &sent);
    const Step* receive = next_message(to, StepAction::kReceive, from, &received);
    if (send == nullptr || receive == nullptr) return false;
    if (send->count != receive->count || send->round != receive->round) {
      throw std::runtime_error(fmt::format("{} elements in round {} from {} to {}: {} in round {}",
                                           send->count, send->round, from, to, receive->count,
                                           receive->round));
    }
    std::copy_n(at(from, send->from), send->count, at(to, receive->to));
    done_[from][sent] = done_[to][received] = true;
    return true;
  }

  void compute(size_t rank, const Step& step) {
    if (step.action == StepAction::kCopy) {
      if (at(rank, step.from) == at(rank, step.to)) return;
      std::copy_n(at(rank, step.from), step.count, at(rank, step.to));
      return;
    }
    for (int64_t i = 0; i < step.count; ++i) {
      T sum{};
      for (int o = 0; o < step.num_operands; ++o) {
        const T value = at(rank, operand(rank, step, o))[i];
        sum = o == 0 ? value : sum + value;
      }
      if (mean_ && step.complete) sum /= static_cast<T>(schedules_.size());
      at(rank, step.to)[i] = sum;
    }
  }

  StepPlace operand(size_t rank, const Step& step, int i) const {
    return schedules_[rank].operands[static_cast<size_t>(step.first_operand + i)];
  }

  std::vector<Range> ranges(size_t rank, const Step& step) {
    std::vector<Range> touched;
    const auto add = [&](StepPlace place, bool written) {
      touched.push_back({at(rank, place), at(rank, place) + step.count, written});
    };
    const bool sends = step.action == StepAction::kSend;
    if (sends || step.action == StepAction::kCopy) add(step.from, false);
    for (int o = 0; o < step.num_operands; ++o) add(operand(rank, step, o), false);
    if (!sends) add(step.to, true);
    return touched;
  }

  void check_independent(size_t rank) {
    const std::vector<Step>& steps = schedules_[rank].steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i > 0 && steps[i].round < steps[i - 1].round) throw std::runtime_error("rounds go back");
      if (is_idle_copy(rank, steps[i])) continue;
      for (size_t j = i + 1; j < steps.size() && steps[j].round == steps[i].round; ++j) {
        if (!is_idle_copy(rank, steps[j])) check_apart(rank, steps[i], steps[j]);
      }
    }
  }

  bool is_idle_copy(size_t rank, const Step& step) {
    return step.action == StepAction::kCopy && at(rank, step.from) == at(rank, step.to);
  }

  void check_apart(size_t rank, const Step& first, const Step& second) {
    for (const Range& a : ranges(rank, first)) {
      for (const Range& b : ranges(rank, second)) {
        if ((!a.written && !b.written) || a.end <= b.begin || b.end <= a.begin) continue;
        throw std::runtime_error(fmt::format("steps of round {} overlap", first.round));
      }
    }
  }

  const std::vector<CollectiveSchedule>& schedules_;
  std::vector<RankBuffers<T>> buffers_;
  bool mean_;
  std::mt19937 random_;
  std::vector<std::vector<T>> scratch_;
  std::vector<std::vector<bool>> done_;
};

}  // namespace tessera::testing
