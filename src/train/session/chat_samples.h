// Conversations as samples: a sequence each, written by the model's chat template, with loss on
// what the assistant says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spec/run_spec.h"
#include "train/session/batch.h"

namespace tessera {

// All conversations of a file, in its order. Immutable: any thread may read.
class ChatSamples {
 public:
  // Tokenizer and template are those of data.tokenizer, or of model.hf. Throws ConfigError with
  // file and line for a conversation that cannot be read or written, where none has anything to
  // learn within train.seq_len tokens, and for tokens beyond the vocabulary.
  ChatSamples(const RunSpec& spec, const std::string& file);

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(chats_.size()); }
  [[nodiscard]] int64_t cut() const { return cut_; }        // longer than a sequence
  [[nodiscard]] int64_t silent() const { return silent_; }  // left out: nothing of them has loss
  // tokens[t] = x[t]; labels[t] = x[t + 1] where that token is the assistant's, else masked. What
  // is beyond the sequence is cut off, what is left of it masked.
  void fill(int64_t chat, std::span<int32_t> tokens, std::span<int32_t> labels) const;

 private:
  struct Chat {
    std::vector<int32_t> ids;
    std::vector<bool> learned;  // of each id
  };
  std::vector<Chat> chats_;
  int64_t cut_ = 0;
  int64_t silent_ = 0;
};

// Those of data.chats for training: all of them once in an epoch, in an order of its own.
SampleSource chat_samples(const RunSpec& spec);

}  // namespace tessera
