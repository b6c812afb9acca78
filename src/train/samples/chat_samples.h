// Conversations as samples, written by the model's chat template, with loss on what the assistant
// says: a sequence each, or several in a sequence where attention stays inside a conversation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spec/run_spec.h"
#include "train/samples/batch.h"

namespace tessera {

// All conversations of a file. Immutable: any thread may read.
class ChatSamples {
 public:
  // Tokenizer and template are those of data.tokenizer, or of model.hf. With data.document_mask
  // sequences are packed. Throws ConfigError with file and line for a conversation that cannot be
  // read or written, where none has anything to learn within train.seq_len tokens, and for tokens
  // beyond the vocabulary.
  ChatSamples(const RunSpec& spec, const std::string& file);

  [[nodiscard]] int64_t count() const { return std::ssize(sequences_); }
  [[nodiscard]] int64_t conversations() const { return std::ssize(chats_); }
  [[nodiscard]] int64_t cut() const { return cut_; }        // longer than a sequence
  [[nodiscard]] int64_t silent() const { return silent_; }  // left out: nothing of them has loss
  // tokens[t] = x[t]; labels[t] = x[t + 1] where that token is the assistant's and of the same
  // conversation, else masked. What is beyond the sequence is cut off, what is left of it masked.
  void fill(int64_t sequence, std::span<int32_t> tokens, std::span<int32_t> labels) const;
  // Where the conversation of each token begins; what is left is one of its own.
  void starts(int64_t sequence, std::span<int32_t> starts) const;

 private:
  struct Chat {
    std::vector<int32_t> ids;
    std::vector<bool> learned;  // of each id
    // Places that it takes: its last token is only predicted.
    [[nodiscard]] size_t length() const { return ids.size() - 1; }
  };
  void pack(size_t seq_len);

  std::vector<Chat> chats_;
  std::vector<std::vector<size_t>> sequences_;  // the conversations of each
  int64_t cut_ = 0;
  int64_t silent_ = 0;
};

// Sample n is sequence n.
Samples in_file_order(const std::shared_ptr<const ChatSamples>& chats);

// Those of data.chats for training: all sequences once in an epoch, in an order of its own.
Samples chat_samples(const RunSpec& spec);

}  // namespace tessera
