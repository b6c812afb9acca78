#include "serve/batch/scheduler.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace tessera::serve {

Scheduler::Scheduler(const ServeShape& shape, const BatchOptions& options)
    : shape_(shape),
      options_(options),
      slots_(options.slots(shape)),
      cache_(shape.num_pages),
      lengths_(options.expected_answer) {
  options.check(shape);
  groups_.resize(static_cast<size_t>(shape.stages));
}

bool Scheduler::WaitsBefore::operator()(const Sequence* a, const Sequence* b) const {
  const auto order = [](const Sequence* sequence) {
    return std::tuple(sequence->request->asked.priority, sequence->times_preempted == 0,
                      sequence->arrival, sequence->choices.front());
  };
  return order(a) < order(b);
}

void Scheduler::add(BatchRequest request) {
  const std::string why = why_too_long(std::ssize(request.prompt), request.max_tokens,
                                       request.choices, shape_, options_);
  TESSERA_CHECK(why.empty() && !request.prompt.empty() && request.choices > 0,
                "request {} with {} prompt tokens for {} answers: {}", request.id,
                request.prompt.size(), request.choices, why);
  auto state = std::make_unique<RequestState>();
  auto sequence = std::make_unique<Sequence>();
  sequence->request = state.get();
  sequence->tokens = request.prompt;
  for (int choice = 0; choice < request.choices; ++choice) sequence->choices.push_back(choice);
  sequence->arrival = next_arrival_++;
  if (request.deadline) deadlines_.emplace(*request.deadline, request.id);
  state->asked = std::move(request);
  waiting_.insert(sequence.get());
  state->sequences.push_back(std::move(sequence));
  const GenerationId id = state->asked.id;
  const bool is_new = requests_.emplace(id, std::move(state)).second;
  TESSERA_CHECK(is_new, "request {} is there twice", id);
}

Sequence* Scheduler::find(GenerationId id, int choice) const {
  const auto request = requests_.find(id);
  if (request == requests_.end()) return nullptr;
  for (const auto& sequence : request->second->sequences) {
    const auto& choices = sequence->choices;
    if (std::find(choices.begin(), choices.end(), choice) != choices.end()) return sequence.get();
  }
  return nullptr;
}

bool Scheduler::append(GenerationId id, int choice, int32_t token) {
  Sequence* sequence = find(id, choice);
  if (sequence == nullptr) return false;
  TESSERA_CHECK(sequence->awaits_token && sequence->choices.size() == 1,
                "answer {} of request {} awaits no token", choice, id);
  sequence->awaits_token = false;
  sequence->tokens.push_back(token);
  if (sequence->phase == Sequence::Phase::kParked) {
    --num_parked_;
    wait(*sequence);
  }
  return true;
}

void Scheduler::end(GenerationId id, int choice) {
  if (Sequence* sequence = find(id, choice)) end_sequence(*sequence, choice);
}

void Scheduler::end(GenerationId id) {
  for (auto request = requests_.find(id); request != requests_.end();
       request = requests_.find(id)) {
    Sequence& last = *request->second->sequences.back();
    end_sequence(last, last.choices.back());
  }
}

void Scheduler::end_sequence(Sequence& sequence, int choice) {
  RequestState& request = *sequence.request;
  if (sequence.choices.size() > 1) {
    // Its place among those that wait depends on its first choice.
    const bool waits = sequence.phase == Sequence::Phase::kWaiting;
    if (waits) waiting_.erase(&sequence);
    std::erase(sequence.choices, choice);
    if (waits) waiting_.insert(&sequence);
    return;
  }
  const int64_t answer = sequence.num_tokens() - request.prompt_tokens();
  if (answer > 0) lengths_.add(answer);
  release_pages(sequence);
  leave_lists(sequence);
  std::erase_if(request.sequences, [&](const auto& each) { return each.get() == &sequence; });
  if (!request.sequences.empty()) return;
  const GenerationId id = request.asked.id;
  if (request.asked.deadline) deadlines_.erase({*request.asked.deadline, id});
  requests_.erase(id);
}

void Scheduler::release_pages(Sequence& sequence) {
  // Tails first: they are older then.
  for (size_t i = sequence.pages.size(); i-- > 0;) cache_.release(sequence.pages[i]);
  sequence.pages.clear();
  sequence.published = 0;
}

void Scheduler::leave_lists(Sequence& sequence) {
  switch (sequence.phase) {
    case Sequence::Phase::kWaiting:
      waiting_.erase(&sequence);
      break;
    case Sequence::Phase::kParked:
      --num_parked_;
      break;
    case Sequence::Phase::kPrompt:
      std::erase(prompts_, &sequence);
      break;
    case Sequence::Phase::kAnswer:
      std::erase(groups_[static_cast<size_t>(sequence.group)], &sequence);
      break;
  }
}

void Scheduler::wait(Sequence& sequence) {
  sequence.phase = Sequence::Phase::kWaiting;
  sequence.overtaken = 0;
  waiting_.insert(&sequence);
}

void Scheduler::preempt(GenerationId id, int choice) {
  Sequence* sequence = find(id, choice);
  if (sequence != nullptr && sequence->runs()) preempt(*sequence);
}

void Scheduler::forget_pages(GenerationId id) {
  const auto request = requests_.find(id);
  if (request == requests_.end()) return;
  has_forgotten_ = true;
  for (const auto& sequence : request->second->sequences) {
    for (const int32_t page : sequence->pages) cache_.forget(page);
    // Those that it gave back when it was preempted.
    for (const PageKey& key : sequence->keys) {
      if (const int32_t page = cache_.find(key); page != PageCache::kNone) cache_.forget(page);
    }
  }
}

bool Scheduler::plan(PlannedFrame& planned) {
  planned.frame.tokens.clear();
  planned.frame.sequences.clear();
  planned.frame.rows.clear();
  planned.frame.copies.clear();
  planned.owners.clear();
  planned.requests.clear();
  in_frame_.clear();
  has_preempted_ = false;
  Room room = {.tokens = std::min(options_.token_budget, shape_.max_tokens),
               .sequences = shape_.max_sequences,
               .rows = shape_.max_rows};
  plan_answers(planned, room);
  plan_prompts(planned, room);
  if (planned.frame.tokens.empty()) return false;
  // Only now: within a frame, nobody reads what another writes.
  if (options_.prefix_cache) {
    for (Sequence* sequence : in_frame_) publish_full_pages(*sequence);
  }
  planned.frame.number = next_frame_++;
  return true;
}

std::vector<GenerationId> Scheduler::expired(Time now) const {
  std::vector<GenerationId> ids;
  for (const auto& [time, id] : deadlines_) {
    if (time > now) break;
    ids.push_back(id);
  }
  return ids;
}

std::optional<Scheduler::Time> Scheduler::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

int64_t Scheduler::cached_tokens(GenerationId id) const {
  const auto request = requests_.find(id);
  return request == requests_.end() ? 0 : request->second->cached_tokens;
}

bool Scheduler::has_begun(GenerationId id) const {
  const auto request = requests_.find(id);
  return request != requests_.end() && request->second->has_begun;
}

std::span<const int32_t> Scheduler::text(GenerationId id, int choice) const {
  const Sequence* sequence = find(id, choice);
  if (sequence == nullptr) return {};
  return sequence->tokens;
}

BatchStats Scheduler::stats() const {
  BatchStats stats = totals_;
  for_each_running(
      [&](const Sequence& sequence) { stats.running += std::ssize(sequence.choices); });
  stats.waiting = std::ssize(waiting_) + num_parked_;
  stats.pages = cache_.num_pages();
  stats.pages_used = cache_.num_used();
  stats.pages_cached = cache_.num_cached();
  return stats;
}

std::vector<int64_t> Scheduler::group_sizes() const {
  std::vector<int64_t> sizes;
  for (const auto& group : groups_) sizes.push_back(std::ssize(group));
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

int64_t Scheduler::times_preempted(GenerationId id, int choice) const {
  const Sequence* sequence = find(id, choice);
  return sequence == nullptr ? 0 : sequence->times_preempted;
}

}  // namespace tessera::serve
