// Every count of a scheduler, made again from its sequences.
#include <algorithm>

#include "base/error.h"
#include "serve/batch/scheduler.h"

namespace tessera::serve {

void Scheduler::check() const {
  std::vector<int32_t> holders(static_cast<size_t>(shape_.num_pages));
  int64_t parked = 0, running = 0, waiting = 0;
  for (const auto& [id, request] : requests_) {
    TESSERA_CHECK(id == request->asked.id && !request->sequences.empty(), "request {} is empty",
                  id);
    for (const auto& sequence : request->sequences) {
      check_sequence(*sequence);
      for (const int32_t page : sequence->pages) ++holders[static_cast<size_t>(page)];
      parked += sequence->phase == Sequence::Phase::kParked ? 1 : 0;
      waiting += sequence->phase == Sequence::Phase::kWaiting ? 1 : 0;
      running += sequence->runs() ? std::ssize(sequence->choices) : 0;
    }
  }
  cache_.check(holders);
  TESSERA_CHECK(parked == num_parked_, "{} sequences are parked, counted {}", parked, num_parked_);
  TESSERA_CHECK(waiting == std::ssize(waiting_), "{} sequences wait, listed {}", waiting,
                waiting_.size());
  const BatchStats counted = stats();
  TESSERA_CHECK(running == counted.running && running <= slots_ * shape_.stages,
                "{} choices run in {} slots of {} stages, counted {}", running, slots_,
                shape_.stages, counted.running);
  for (const auto& group : groups_) {
    TESSERA_CHECK(std::ssize(group) <= slots_, "a group of {} in frames of {}", group.size(),
                  slots_);
  }
}

void Scheduler::check_sequence(const Sequence& sequence) const {
  const RequestState& request = *sequence.request;
  const auto id = request.asked.id;
  const auto pages = std::ssize(sequence.pages);
  TESSERA_CHECK(!sequence.choices.empty(), "a text of request {} is of no choice", id);
  TESSERA_CHECK(sequence.computed <= sequence.num_tokens() &&
                    sequence.num_tokens() <= request.prompt_tokens() + request.asked.max_tokens,
                "{} of {} tokens of request {} are computed; it may have {}", sequence.computed,
                sequence.num_tokens(), id, request.prompt_tokens() + request.asked.max_tokens);
  const auto is_in = [&](const std::vector<Sequence*>& list) {
    return std::find(list.begin(), list.end(), &sequence) != list.end();
  };
  switch (sequence.phase) {
    case Sequence::Phase::kWaiting:
    case Sequence::Phase::kParked:
      TESSERA_CHECK(pages == 0 && sequence.computed == 0, "request {} waits with {} pages", id,
                    pages);
      TESSERA_CHECK(sequence.awaits_token == (sequence.phase == Sequence::Phase::kParked),
                    "request {} waits for the wrong thing", id);
      return;
    case Sequence::Phase::kPrompt:
      TESSERA_CHECK(is_in(prompts_) && sequence.left() > 0, "request {} is not among prompts", id);
      TESSERA_CHECK(pages == pages_for(sequence.num_tokens(), shape_.page_size),
                    "{} pages for {} tokens of request {}", pages, sequence.num_tokens(), id);
      break;
    case Sequence::Phase::kAnswer:
      TESSERA_CHECK(is_in(groups_[static_cast<size_t>(sequence.group)]) &&
                        sequence.choices.size() == 1 &&
                        sequence.left() == (sequence.awaits_token ? 0 : 1),
                    "an answer to request {} is not in its group", id);
      TESSERA_CHECK(pages == pages_for(sequence.computed, shape_.page_size),
                    "{} pages for {} tokens of request {}", pages, sequence.computed, id);
      break;
  }
  if (has_forgotten_) return;
  for (int64_t i = 0; i < sequence.published; ++i) {
    const auto at = static_cast<size_t>(i);
    TESSERA_CHECK(cache_.find(sequence.keys[at]) == sequence.pages[at],
                  "page {} of request {} is not found by its key", sequence.pages[at], id);
  }
}

}  // namespace tessera::serve
