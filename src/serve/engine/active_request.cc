#include "serve/engine/active_request.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::serve {
namespace {

void set_bit(std::vector<uint32_t>& bits, int32_t token) {
  const auto at = static_cast<uint32_t>(token);
  bits[at / 32] |= 1U << (at % 32);
}

bool has_any(const std::vector<uint32_t>& bits) {
  return std::any_of(bits.begin(), bits.end(), [](uint32_t word) { return word != 0; });
}

size_t words_of(int64_t vocab) { return static_cast<size_t>((vocab + 31) / 32); }

}  // namespace

ActiveRequest::ActiveRequest(GenerationId id, GenerationRequest asked,
                             std::shared_ptr<Audience> audience, int64_t vocab)
    : id_(id),
      asked_(std::move(asked)),
      vocab_(vocab),
      max_tokens_(asked_.max_tokens),
      audience_(std::move(audience)),
      how_(std::make_shared<const Sampling>(asked_.sampling)),
      choices_(static_cast<size_t>(asked_.choices)),
      open_(asked_.choices) {
  usage.prompt_tokens = std::ssize(asked_.prompt);
  if (asked_.prompt_logprobs) {
    prompt_ = asked_.prompt;
    how_of_prompt_ = std::make_shared<const Sampling>(
        Sampling{.temperature = 0, .logprobs = std::max(0, asked_.sampling.logprobs)});
  }
  for (Choice& choice : choices_) {
    if (asked_.sampling.repetition_penalty != 1) choice.counts.add_prompt(asked_.prompt);
    const bool is_last = &choice == &choices_.back();
    if (asked_.grammar) {
      choice.grammar = is_last ? std::move(asked_.grammar) : asked_.grammar->clone();
    }
  }
}

BatchRequest ActiveRequest::to_batch() {
  return {.id = id_,
          .prompt = std::move(asked_.prompt),
          .max_tokens = asked_.max_tokens,
          .choices = choices(),
          .priority = asked_.priority,
          .prompt_rows = asked_.prompt_logprobs,
          .salt = asked_.salt,
          .deadline = asked_.deadline};
}

std::vector<uint32_t> ActiveRequest::all_tokens() const {
  std::vector<uint32_t> bits(words_of(vocab_), ~0U);
  if (vocab_ % 32 != 0) bits.back() = (1U << (vocab_ % 32)) - 1;
  return bits;
}

// False: nothing is left, and the bits are as they were.
bool ActiveRequest::clear_end_tokens(std::vector<uint32_t>& bits) const {
  std::vector<uint32_t> left = bits;
  for (const int32_t token : asked_.end_tokens) {
    const auto at = static_cast<uint32_t>(token);
    if (at / 32 < left.size()) left[at / 32] &= ~(1U << (at % 32));
  }
  if (!has_any(left)) return false;
  bits = std::move(left);
  return true;
}

bool ActiveRequest::sample_answer(int choice, RowSampling& row) {
  Choice& answer = choices_[static_cast<size_t>(choice)];
  row.how = how_;
  if (how_->has_penalties()) row.counts = answer.counts.all();
  if (answer.grammar) return true;
  if (!may_end(answer)) {
    row.allowed = all_tokens();
    (void)clear_end_tokens(row.allowed);
  }
  return false;
}

bool ActiveRequest::allow_answer(int choice, std::vector<uint32_t>& allowed) {
  Choice& answer = choices_[static_cast<size_t>(choice)];
  allowed.assign(words_of(vocab_), 0);
  answer.grammar->allow(allowed);
  if (!has_any(allowed)) return false;
  // A text that a grammar has completed ends, however short it is.
  if (!may_end(answer)) (void)clear_end_tokens(allowed);
  return true;
}

bool ActiveRequest::may_end(const Choice& answer) const {
  return answer.tokens >= asked_.min_tokens || asked_.end_tokens.empty();
}

// Among the only token that is allowed, the choice is known; its log probability is the model's.
void ActiveRequest::sample_prompt(int64_t place, RowSampling& row) const {
  row.how = how_of_prompt_;
  row.allowed.assign(words_of(vocab_), 0);
  set_bit(row.allowed, prompt_[static_cast<size_t>(place)]);
}

bool ActiveRequest::ends(int32_t token) const {
  return std::find(asked_.end_tokens.begin(), asked_.end_tokens.end(), token) !=
         asked_.end_tokens.end();
}

bool ActiveRequest::add(int choice, int32_t token) {
  Choice& answer = choices_[static_cast<size_t>(choice)];
  if (how_->has_penalties()) answer.counts.add(token);
  if (answer.grammar) answer.grammar->accept(token);
  ++usage.answer_tokens;
  return ++answer.tokens >= max_tokens_;
}

bool ActiveRequest::end(int choice) {
  Choice& answer = choices_[static_cast<size_t>(choice)];
  TESSERA_CHECK(!answer.ended, "answer {} of request {} ends twice", choice, id_);
  answer.ended = true;
  answer.grammar.reset();
  return --open_ == 0;
}

}  // namespace tessera::serve
