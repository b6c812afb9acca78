// Text in, text out, as tokens: what the HTTP side, `chat` and `generate` see of the engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/sampling.h"

namespace tessera::serve {

// What tokens may come next, one text at a time (serve/grammar). Not thread-safe; the engine's
// thread alone calls it once the request has been taken.
class TokenGrammar {
 public:
  virtual ~TokenGrammar() = default;
  // Sets the bits of the tokens that may come next; `bits` has one for each of the vocabulary and
  // comes zeroed. An end token's bit says that the text may end here.
  virtual void allow(std::vector<uint32_t>& bits) = 0;
  // The token that was chosen; it was allowed.
  virtual void accept(int32_t token) = 0;
  [[nodiscard]] virtual std::unique_ptr<TokenGrammar> clone() const = 0;  // for another choice
};

struct GenerationRequest {
  std::vector<int32_t> prompt;  // at least one token
  int64_t max_tokens = 16;      // of the answer
  int64_t min_tokens = 0;       // before which no end token is chosen
  int choices = 1;              // answers to the same prompt
  Sampling sampling;
  std::vector<int32_t> end_tokens;  // each ends the answer, and is not part of it
  std::unique_ptr<TokenGrammar> grammar;
  bool prompt_logprobs = false;  // of every token of the prompt but the first
  int priority = 0;              // lower goes first
  std::string salt;              // requests of different salts share no pages
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kDeadline, kFailed };

struct GenerationUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, found in the prefix cache
  int64_t answer_tokens = 0;  // of all choices
};

// Told of what happens to a request, on the engine's thread: must return soon, and must not call
// the Generator but cancel().
class GenerationListener {
 public:
  virtual ~GenerationListener() = default;
  virtual void on_prompt(const std::vector<SampledToken>& logprobs) { (void)logprobs; }
  virtual void on_token(int choice, const SampledToken& token) = 0;
  // Called once for each choice; nothing comes for it afterwards. `why` is said where it failed.
  virtual void on_finish(int choice, FinishReason reason, const std::string& why) = 0;
  // After the last choice has finished; nothing at all comes afterwards.
  virtual void on_end(const GenerationUsage& usage) = 0;
};

using GenerationId = uint64_t;

enum class Refused : uint8_t { kNo, kQueueFull, kTooLong, kDraining, kDead };
struct Submission {
  GenerationId id = 0;
  Refused refused = Refused::kNo;
  std::string why;  // with both numbers, where it is too long
};

struct GeneratorStats {
  int64_t running = 0;  // choices
  int64_t waiting = 0;  // requests
  int64_t pages = 0, pages_used = 0, pages_cached = 0;
  uint64_t prompt_tokens_total = 0, answer_tokens_total = 0;
  uint64_t prefix_hit_tokens_total = 0, prefix_asked_tokens_total = 0;
  uint64_t recomputed_tokens_total = 0, preemptions_total = 0;
  uint64_t frames_total = 0;
  uint64_t rank_progress = 0;  // changes while ranks come further, also inside of a frame
  uint64_t finished_total = 0, cancelled_total = 0, failed_total = 0;
};

// Thread-safe.
class Generator {
 public:
  virtual ~Generator() = default;
  [[nodiscard]] virtual int64_t vocab() const = 0;
  [[nodiscard]] virtual int64_t max_context() const = 0;
  // Refuses at once, or takes it: then the listener hears of it until on_end().
  virtual Submission submit(GenerationRequest request,
                            std::shared_ptr<GenerationListener> listener) = 0;
  // All choices of a request, or one; they finish with kCancelled, soon. Of one that has ended:
  // nothing happens.
  virtual void cancel(GenerationId id) = 0;
  virtual void cancel_choice(GenerationId id, int choice) = 0;
  [[nodiscard]] virtual GeneratorStats stats() const = 0;
  // Empty: it answers. Else why it never will again, such as the rank that was lost.
  [[nodiscard]] virtual std::string failure() const = 0;
  // When the engine last came round: it has a step behind it, or nothing to do.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point last_seen_alive() const = 0;
  // Takes nothing new from now on; true where all that it had taken ended within `longest`.
  virtual bool drain(std::chrono::milliseconds longest) = 0;
};

}  // namespace tessera::serve
