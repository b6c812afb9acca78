// Texts whose prompts are computed: groups, pages one by one, and who gives way where none is left.
#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "serve/batch/scheduler.h"

namespace tessera::serve {

void Scheduler::plan_answers(PlannedFrame& planned, Room& room) {
  const int group = choose_group();
  if (group < 0) return;
  even_out(group);
  auto& members = groups_[static_cast<size_t>(group)];
  preempt_for(members);
  for (Sequence* sequence : members) {
    if (!sequence->is_ready()) continue;
    TESSERA_CHECK(sequence->left() == 1 && room.tokens > 0 && room.sequences > 0 && room.rows > 0,
                  "a group of {} answers in a frame of {} slots", members.size(), slots_);
    give_page(*sequence, planned.frame);
    --room.tokens;
    --room.sequences;
    --room.rows;
    add_tokens(*sequence, 1, planned);
  }
}

// The first one from the next on that has something to do; -1: none has.
int Scheduler::choose_group() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const size_t group = (next_group_ + i) % groups_.size();
    const auto& members = groups_[group];
    if (std::none_of(members.begin(), members.end(),
                     [](const Sequence* sequence) { return sequence->is_ready(); })) {
      continue;
    }
    next_group_ = (group + 1) % groups_.size();
    return static_cast<int>(group);
  }
  return -1;
}

// Equal micro-batches: a group that others shrank behind gives some of its own to the smallest.
void Scheduler::even_out(int group) {
  auto& members = groups_[static_cast<size_t>(group)];
  const auto is_smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  for (size_t i = members.size(); i-- > 0;) {
    const auto smallest = std::min_element(groups_.begin(), groups_.end(), is_smaller);
    if (members.size() <= smallest->size() + 1) return;
    Sequence* sequence = members[i];
    if (!sequence->is_ready()) continue;
    members.erase(members.begin() + static_cast<int64_t>(i));
    sequence->group = static_cast<int>(smallest - groups_.begin());
    smallest->push_back(sequence);
  }
}

void Scheduler::enter_smallest_group(Sequence& sequence) {
  const auto is_smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto smallest = std::min_element(groups_.begin(), groups_.end(), is_smaller);
  sequence.phase = Sequence::Phase::kAnswer;
  sequence.group = static_cast<int>(smallest - groups_.begin());
  smallest->push_back(&sequence);
}

// Whether the page of its next token is there, but another text holds it too.
bool Scheduler::shares_last_page(const Sequence& sequence) const {
  const auto page = static_cast<size_t>(sequence.computed / shape_.page_size);
  return page < sequence.pages.size() && cache_.holders(sequence.pages[page]) > 1;
}

// By the members of a group that are ready, for their next tokens. Of those that share a page, all
// that hold it but the last need a copy.
int64_t Scheduler::pages_wanted(const std::vector<Sequence*>& group) const {
  int64_t wanted = 0;
  std::vector<int32_t> left;  // shared pages, once for each that has left them
  for (const Sequence* sequence : group) {
    if (!sequence->is_ready()) continue;
    if (sequence->computed == std::ssize(sequence->pages) * shape_.page_size) {
      ++wanted;
    } else if (shares_last_page(*sequence)) {
      const int32_t page = sequence->pages.back();
      if (cache_.holders(page) - std::count(left.begin(), left.end(), page) <= 1) continue;
      left.push_back(page);
      ++wanted;
    }
  }
  return wanted;
}

void Scheduler::preempt_for(const std::vector<Sequence*>& group) {
  while (pages_wanted(group) > cache_.num_free()) {
    TESSERA_CHECK(options_.admission != Admission::kGuarantee,
                  "{} pages are wanted, {} are free: what was guaranteed is not there",
                  pages_wanted(group), cache_.num_free());
    Sequence* victim = cheapest_victim();
    TESSERA_CHECK(victim != nullptr, "{} pages are free, and nothing runs", cache_.num_free());
    preempt(*victim);
  }
}

// None twice while others were spared; one that has pages of its own, if any has; then what loses
// the least; then the last that came.
Sequence* Scheduler::cheapest_victim() const {
  Sequence* cheapest = nullptr;
  std::tuple<int64_t, bool, int64_t, uint64_t> least;
  for_each_running([&](Sequence& sequence) {
    const bool gives_nothing = std::all_of(sequence.pages.begin(), sequence.pages.end(),
                                           [&](int32_t page) { return cache_.holders(page) > 1; });
    const std::tuple price = {sequence.times_preempted, gives_nothing, private_tokens(sequence),
                              ~sequence.arrival};
    if (cheapest != nullptr && price >= least) return;
    cheapest = &sequence;
    least = price;
  });
  return cheapest;
}

// Computed tokens in pages that nobody else holds.
int64_t Scheduler::private_tokens(const Sequence& sequence) const {
  int64_t tokens = 0;
  for (size_t i = 0; i < sequence.pages.size(); ++i) {
    if (cache_.holders(sequence.pages[i]) > 1) continue;
    const int64_t before = static_cast<int64_t>(i) * shape_.page_size;
    tokens += std::clamp<int64_t>(sequence.computed - before, 0, shape_.page_size);
  }
  return tokens;
}

void Scheduler::preempt(Sequence& victim) {
  leave_lists(victim);
  release_pages(victim);
  victim.most_computed = std::max(victim.most_computed, victim.computed);
  victim.computed = 0;
  ++victim.times_preempted;
  ++totals_.preemptions;
  has_preempted_ = true;
  if (victim.awaits_token) {
    victim.phase = Sequence::Phase::kParked;
    ++num_parked_;
  } else {
    wait(victim);
  }
}

void Scheduler::give_page(Sequence& sequence, Frame& frame) {
  if (sequence.computed == std::ssize(sequence.pages) * shape_.page_size) {
    sequence.pages.push_back(cache_.take());
  } else if (shares_last_page(sequence)) {
    const int32_t shared = sequence.pages.back();
    sequence.pages.back() = cache_.take();
    cache_.release(shared);
    frame.copies.push_back({shared, sequence.pages.back()});
  }
}

}  // namespace tessera::serve
