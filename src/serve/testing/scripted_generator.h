// For tests: a Generator that writes what a script says, a token of every running answer each step,
// on a thread of its own; with a queue, places and pages that are counted, and that can be told to
// stand still before any part of its work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/generator.h"

namespace tessera::serve::testing {

enum class Halt : uint8_t {
  kNowhere,
  kQueued,   // none is begun
  kPrefill,  // prompts are begun and never done
  kDecode,   // answers stop behind their first token
};

struct ScriptOptions {
  int64_t vocab = 256;
  int64_t max_context = 1000;
  int64_t most_running = 512;  // choices
  int64_t most_waiting = 256;  // requests
  int64_t page = 16;           // tokens
  std::chrono::milliseconds step{0};
  // The tokens of an answer, which then ends (kStop). Null: the alphabet, from the choice's letter.
  std::function<std::vector<int32_t>(const GenerationRequest& request, int choice)> answer;
};

// The bytes of a text.
std::vector<int32_t> bytes_as_tokens(std::string_view text);

class ScriptedGenerator final : public Generator {
 public:
  explicit ScriptedGenerator(ScriptOptions options);
  ~ScriptedGenerator() override;
  ScriptedGenerator(const ScriptedGenerator&) = delete;
  ScriptedGenerator& operator=(const ScriptedGenerator&) = delete;

  [[nodiscard]] int64_t vocab() const override { return options_.vocab; }
  [[nodiscard]] int64_t max_context() const override { return options_.max_context; }
  Submission submit(GenerationRequest request,
                    std::shared_ptr<GenerationListener> listener) override;
  void cancel(GenerationId id) override;
  void cancel_choice(GenerationId id, int choice) override;
  [[nodiscard]] GeneratorStats stats() const override;
  [[nodiscard]] std::string failure() const override;
  [[nodiscard]] std::chrono::steady_clock::time_point last_seen_alive() const override;
  bool drain(std::chrono::milliseconds longest) override;

  void halt(Halt where);
  // As an engine whose ranks are lost: all that it has ends, and nothing comes any more.
  void die(const std::string& why);
  // Neither progress nor an answer, and nothing said of it.
  void freeze(bool frozen);
  // All that was taken and still waits, is begun, or has an answer that grows.
  [[nodiscard]] int in(Halt part) const;
  // What all requests but those of probes asked for, in their order.
  [[nodiscard]] std::vector<GenerationRequest> asked() const;

 private:
  struct Choice {
    std::vector<int32_t> script;
    std::vector<int32_t> written;
    std::unique_ptr<TokenGrammar> grammar;
    bool finished = false, cancelled = false;
  };
  struct Text {
    GenerationId id = 0;
    GenerationRequest request;
    std::shared_ptr<GenerationListener> listener;
    std::vector<Choice> choices;
    bool begun = false, computed = false;
    [[nodiscard]] int64_t places() const;
    [[nodiscard]] bool ended() const;
  };
  using News = std::vector<std::function<void()>>;

  void run();
  void step(News& news);
  void begin_texts();
  void advance(Text& text, News& news);
  void write(Text& text, int number, News& news);
  void finish(Text& text, int number, FinishReason reason, const std::string& why, News& news);
  void forget_ended(News& news);
  [[nodiscard]] int32_t next_token(const Text& text, Choice& choice) const;
  [[nodiscard]] bool has_work() const;

  const ScriptOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Text> texts_;  // in the order in which they came
  std::vector<GenerationRequest> asked_;
  GenerationId last_id_ = 0;
  GeneratorStats totals_;
  Halt halt_ = Halt::kNowhere;
  bool frozen_ = false, draining_ = false, ending_ = false;
  std::string failure_;
  std::chrono::steady_clock::time_point seen_ = std::chrono::steady_clock::now();
  std::thread thread_;
};

}  // namespace tessera::serve::testing
