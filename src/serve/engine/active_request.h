// A request that the engine works on: what each of its answers may say next, and what it has said.
// Knows nothing of frames, pages and threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serve/batch/batch_options.h"
#include "serve/engine/deliveries.h"
#include "serve/engine/token_counts.h"
#include "serve/generator.h"
#include "serve/sampling.h"

namespace tessera::serve {

class ActiveRequest {
 public:
  ActiveRequest(GenerationId id, GenerationRequest asked, std::shared_ptr<Audience> audience,
                int64_t vocab);

  // For the scheduler; takes the prompt along.
  [[nodiscard]] BatchRequest to_batch();

  // What the next token of an answer is chosen by, but for what its grammar says. True: it has one.
  bool sample_answer(int choice, RowSampling& row);
  // Which tokens its grammar allows next. False: none, so it ends here. Throws what the grammar
  // throws.
  [[nodiscard]] bool allow_answer(int choice, std::vector<uint32_t>& allowed);
  // The log probability of the prompt's token at this place.
  void sample_prompt(int64_t place, RowSampling& row) const;

  [[nodiscard]] bool has_ended(int choice) const { return at(choice).ended; }
  [[nodiscard]] bool ends(int32_t token) const;
  // One more token of the answer, which it did not end. True: it was the last that it may have.
  bool add(int choice, int32_t token);
  // True: that was the last answer.
  bool end(int choice);

  [[nodiscard]] GenerationId id() const { return id_; }
  [[nodiscard]] int choices() const { return static_cast<int>(choices_.size()); }
  [[nodiscard]] int64_t max_tokens() const { return max_tokens_; }
  [[nodiscard]] bool wants_prompt() const { return !prompt_.empty(); }
  [[nodiscard]] const std::shared_ptr<Audience>& audience() const { return audience_; }

  bool begun = false;
  bool prompt_told = false;
  std::vector<SampledToken> prompt_logprobs;
  GenerationUsage usage;

 private:
  struct Choice {
    std::unique_ptr<TokenGrammar> grammar;
    TokenCounts counts;  // where there are penalties
    int64_t tokens = 0;
    bool ended = false;
  };
  [[nodiscard]] const Choice& at(int choice) const { return choices_[static_cast<size_t>(choice)]; }
  [[nodiscard]] std::vector<uint32_t> all_tokens() const;
  [[nodiscard]] bool may_end(const Choice& answer) const;
  bool clear_end_tokens(std::vector<uint32_t>& bits) const;

  GenerationId id_;
  GenerationRequest asked_;
  int64_t vocab_;
  int64_t max_tokens_;
  std::shared_ptr<Audience> audience_;
  std::shared_ptr<const Sampling> how_, how_of_prompt_;
  std::vector<int32_t> prompt_;  // where its log probabilities are wanted
  std::vector<Choice> choices_;
  int open_ = 0;  // choices that have not ended
};

}  // namespace tessera::serve
