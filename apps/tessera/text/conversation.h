// A conversation with a model: messages as its chat template writes them, and its answers as they
// come.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/terminal.h"
#include "serve/api/metrics.h"
#include "serve/start/start_model.h"
#include "text/follow_answer.h"
#include "text/sampling_flags.h"

namespace tessera {

// One thread. The model must outlive it.
class Conversation {
 public:
  // `system`: the first message; empty: there is none.
  Conversation(serve::StartedModel& model, const SamplingFlags& sampling,
               const std::string& system);

  // Says `text` to the model and writes its answer to `console.out`. Where `unwanted` says so, the
  // answer ends, and what has come of it stays. Throws ConfigError where template or context have
  // no room for it: the conversation is then as it was before.
  AnswerEnd say(const std::string& text, const std::function<bool()>& unwanted, Console& console);

  void reset();  // all but the system message
  void set_system(const std::string& text);
  [[nodiscard]] std::string system() const;
  [[nodiscard]] const nlohmann::ordered_json& messages() const { return messages_; }
  // Tokens of the last prompt and its answer.
  [[nodiscard]] int64_t length() const { return length_; }
  [[nodiscard]] int64_t context() const { return model_.served().max_context; }

 private:
  [[nodiscard]] std::vector<int32_t> prompt() const;

  serve::StartedModel& model_;
  SamplingFlags sampling_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  int64_t length_ = 0;
  uint64_t turns_ = 0;
  serve::ServeMetrics metrics_;
  serve::AnswerDesk desk_;
};

}  // namespace tessera
