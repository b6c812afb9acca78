// Texts whose prompts are not computed yet: who begins, and which chunk of which is in a frame.
#include <algorithm>

#include "base/error.h"
#include "serve/batch/scheduler.h"

namespace tessera::serve {

void Scheduler::plan_prompts(PlannedFrame& planned, Room& room) {
  const std::vector<Sequence*> begun = prompts_;  // those that are done with it leave the list
  for (Sequence* sequence : begun) {
    if (room.tokens == 0 || room.sequences == 0) return;
    plan_chunk(*sequence, planned, room);
  }
  // Pages that were given up are for those who wanted them.
  if (!has_preempted_ && num_parked_ == 0) admit_waiting(planned, room);
}

// In their order, but for one that does not fit yet: others go before it, once.
void Scheduler::admit_waiting(PlannedFrame& planned, Room& room) {
  constexpr size_t kMostPassed = 8;  // looked at per frame
  std::vector<Sequence*> passed;
  auto next = waiting_.begin();
  while (next != waiting_.end() && room.tokens > 0 && room.sequences > 0) {
    Sequence& sequence = **next;
    const Fit found = has_slots(sequence) ? fit(sequence) : Fit{};
    if (found.new_pages > 0 && has_pages(sequence, found)) {
      for (Sequence* each : passed) ++each->overtaken;
      next = waiting_.erase(next);
      begin(sequence, found);
      plan_chunk(sequence, planned, room);
      if (!passed.empty()) return;
    } else {
      if (sequence.overtaken > 0 || passed.size() == kMostPassed) return;
      passed.push_back(&sequence);
      ++next;
    }
  }
}

// So that a frame of the smallest group always has a row for each choice of any prompt that runs.
bool Scheduler::has_slots(const Sequence& sequence) const {
  int64_t running = std::ssize(sequence.choices), widest = running;
  for_each_running([&](const Sequence& other) {
    running += std::ssize(other.choices);
    if (other.phase == Sequence::Phase::kPrompt)
      widest = std::max<int64_t>(widest, std::ssize(other.choices));
  });
  return (running - widest) / shape_.stages + widest <= slots_;
}

Scheduler::Fit Scheduler::fit(Sequence& sequence) {
  Fit found;
  // The last token is computed in any case: its logits are wanted.
  int64_t most_hits = options_.prefix_cache ? (sequence.num_tokens() - 1) / shape_.page_size : 0;
  const RequestState& request = *sequence.request;
  if (request.asked.prompt_rows && request.prompt_rows < request.prompt_tokens() - 1) {
    most_hits = std::min(most_hits, request.prompt_rows / shape_.page_size);
  }
  for (; found.hit_pages < most_hits; ++found.hit_pages) {
    extend_keys(sequence, found.hit_pages + 1);
    const int32_t page = cache_.find(sequence.keys[static_cast<size_t>(found.hit_pages)]);
    if (page == PageCache::kNone) break;
    if (cache_.holders(page) == 0) ++found.free_hits;
  }
  found.new_pages = pages_for(sequence.num_tokens(), shape_.page_size) - found.hit_pages;
  return found;
}

bool Scheduler::has_pages(const Sequence& sequence, const Fit& fit) const {
  const int64_t taken = fit.new_pages + fit.free_hits;
  if (taken > cache_.num_free()) return false;
  int64_t promised = 0;
  bool any = false;
  if (options_.admission == Admission::kGuarantee) {
    for_each_running([&](const Sequence& other) { promised += guaranteed_pages(other); });
    return promised + guaranteed_pages(sequence) <= cache_.num_pages();
  }
  for_each_running([&](const Sequence& other) {
    any = true;
    promised += expected_growth(other, std::ssize(other.pages));
  });
  if (!any) return true;
  promised += expected_growth(sequence, fit.hit_pages + fit.new_pages);
  constexpr int64_t kPercent = 98;
  return (cache_.num_used() + taken + promised) * 100 <= cache_.num_pages() * kPercent;
}

// Pages that its request has in common are counted at the first of its sequences.
int64_t Scheduler::guaranteed_pages(const Sequence& sequence) const {
  const RequestState& request = *sequence.request;
  const int64_t all = most_pages(request.prompt_tokens(), request.asked.max_tokens,
                                 std::ssize(sequence.choices), shape_.page_size);
  const bool is_first = request.sequences.front().get() == &sequence;
  return is_first ? all : all - request.prompt_tokens() / shape_.page_size;
}

int64_t Scheduler::expected_growth(const Sequence& sequence, int64_t pages) const {
  const RequestState& request = *sequence.request;
  const int64_t answered = sequence.num_tokens() - request.prompt_tokens();
  const int64_t expected =
      std::min(request.asked.max_tokens, std::max(lengths_.expected(), answered + 1));
  return std::max<int64_t>(0, most_pages(request.prompt_tokens(), expected,
                                         std::ssize(sequence.choices), shape_.page_size) -
                                  pages);
}

void Scheduler::begin(Sequence& sequence, const Fit& fit) {
  RequestState& request = *sequence.request;
  for (int64_t i = 0; i < fit.hit_pages; ++i) {
    sequence.pages.push_back(cache_.find(sequence.keys[static_cast<size_t>(i)]));
    cache_.hold(sequence.pages.back());
  }
  for (int64_t i = 0; i < fit.new_pages; ++i) sequence.pages.push_back(cache_.take());
  sequence.published = fit.hit_pages;
  sequence.computed = fit.hit_pages * shape_.page_size;
  if (!request.has_begun) {
    request.has_begun = true;
    request.cached_tokens = sequence.computed;
    totals_.prefix_hit_tokens += static_cast<uint64_t>(sequence.computed);
    totals_.prefix_asked_tokens += static_cast<uint64_t>(sequence.num_tokens());
  }
  // One chunk for each stage keeps them all busy.
  sequence.chunk = shape_.max_tokens;
  if (shape_.stages > 1) {
    sequence.chunk =
        std::max(options_.least_chunk, (sequence.left() + shape_.stages - 1) / shape_.stages);
  }
  sequence.phase = Sequence::Phase::kPrompt;
  prompts_.push_back(&sequence);
}

// As much of it as the frame has room for; false: nothing.
bool Scheduler::plan_chunk(Sequence& sequence, PlannedFrame& planned, Room& room) {
  const RequestState& request = *sequence.request;
  const auto choices = std::ssize(sequence.choices);
  int64_t count = std::min({sequence.left(), sequence.chunk, room.tokens});
  // Rows of its prompt that nobody has had yet, one for each token but the last of the prompt.
  const int64_t first_row = request.prompt_rows - sequence.computed;
  const int64_t rows_left = request.prompt_tokens() - 1 - request.prompt_rows;
  const bool wants_rows = request.asked.prompt_rows && rows_left > 0;
  if (wants_rows) count = std::min(count, first_row + room.rows);
  const auto rows_of = [&](int64_t tokens) {
    return wants_rows ? std::clamp<int64_t>(tokens - first_row, 0, rows_left) : 0;
  };
  if (count == sequence.left() && rows_of(count) + choices > room.rows) --count;
  if (count <= 0) return false;
  room.tokens -= count;
  --room.sequences;
  room.rows -= rows_of(count) + (count == sequence.left() ? choices : 0);
  add_tokens(sequence, count, planned);
  return true;
}

// The next `count` tokens of it into the frame, with the rows that are wanted of them.
void Scheduler::add_tokens(Sequence& sequence, int64_t count, PlannedFrame& planned) {
  Frame& frame = planned.frame;
  const int64_t end = sequence.computed + count;
  const auto pages = pages_for(end, shape_.page_size);
  frame.sequences.push_back({.num_tokens = static_cast<int32_t>(count),
                             .cached = static_cast<int32_t>(sequence.computed),
                             .pages = {sequence.pages.begin(), sequence.pages.begin() + pages}});
  add_rows(sequence, std::ssize(frame.tokens), count, planned);
  frame.tokens.insert(frame.tokens.end(), sequence.tokens.begin() + sequence.computed,
                      sequence.tokens.begin() + end);
  planned.requests.push_back(sequence.request->asked.id);
  const int64_t again = std::min(end, sequence.most_computed) - sequence.computed;
  if (again > 0) totals_.recomputed_tokens += static_cast<uint64_t>(again);
  sequence.computed = end;
  in_frame_.push_back(&sequence);
  if (sequence.left() > 0) return;
  sequence.awaits_token = true;
  if (sequence.phase == Sequence::Phase::kPrompt) {
    std::erase(prompts_, &sequence);
    fork(sequence);
  }
}

void Scheduler::add_rows(Sequence& sequence, int64_t first, int64_t count, PlannedFrame& planned) {
  RequestState& request = *sequence.request;
  const auto add = [&](int64_t token, int choice, int64_t prompt_token) {
    FrameRow row;
    row.token_index = static_cast<int32_t>(first + token - sequence.computed);
    row.sampling.choice = static_cast<uint32_t>(choice);
    row.sampling.position = token + 1;
    planned.frame.rows.push_back(std::move(row));
    planned.owners.push_back({request.asked.id, choice, prompt_token});
  };
  const int64_t end = sequence.computed + count;
  if (request.asked.prompt_rows) {
    const int64_t most = std::min(end, request.prompt_tokens() - 1);
    for (; request.prompt_rows < most; ++request.prompt_rows) {
      add(request.prompt_rows, sequence.choices.front(), request.prompt_rows + 1);
    }
  }
  if (end < sequence.num_tokens()) return;
  for (const int32_t choice : sequence.choices) add(end - 1, choice, RowOwner::kAnswer);
}

// Its prompt is computed: from here on each choice is a text of its own, in the same pages.
void Scheduler::fork(Sequence& sequence) {
  enter_smallest_group(sequence);
  const std::vector<int32_t> choices = std::exchange(sequence.choices, {sequence.choices.front()});
  for (size_t i = 1; i < choices.size(); ++i) {
    auto copy = std::make_unique<Sequence>(sequence);
    copy->choices = {choices[i]};
    for (const int32_t page : copy->pages) cache_.hold(page);
    enter_smallest_group(*copy);
    in_frame_.push_back(copy.get());
    sequence.request->sequences.push_back(std::move(copy));
  }
}

void Scheduler::extend_keys(Sequence& sequence, int64_t pages) const {
  const auto size = static_cast<size_t>(shape_.page_size);
  while (std::ssize(sequence.keys) < pages) {
    const PageKey parent =
        sequence.keys.empty() ? root_key(sequence.request->asked.salt) : sequence.keys.back();
    const std::span<const int32_t> tokens = sequence.tokens;
    sequence.keys.push_back(page_key(parent, tokens.subspan(sequence.keys.size() * size, size)));
  }
}

// Where another page holds the same, this text goes on with that one.
void Scheduler::publish_full_pages(Sequence& sequence) {
  const int64_t full = sequence.computed / shape_.page_size;
  extend_keys(sequence, full);
  for (; sequence.published < full; ++sequence.published) {
    const auto i = static_cast<size_t>(sequence.published);
    sequence.pages[i] = cache_.publish(sequence.pages[i], sequence.keys[i]);
  }
}

}  // namespace tessera::serve
