// Tokens into text one by one, for text that is shown while it is made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace tessera {

// What push() and finish() give, joined, is what decode() gives for the ids together, wherever
// their bytes are UTF-8. Every part is whole characters. Memory and time for an id do not grow with
// the text. Not thread-safe; the tokenizer must outlive it.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that is certain with one more id; may be empty.
  std::string push(int32_t id);
  // What was held back, and a new beginning.
  std::string finish();

 private:
  std::string push_bytes(std::string_view token);
  std::string push_fallback(int32_t id, char byte);
  // The bytes that were held back are no character.
  std::string drop_fallback();
  // What the ids that were not shown yet add, given those before them.
  [[nodiscard]] std::string unseen() const;
  void accept();

  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string bytes_;         // of a character that is not complete
  std::vector<int32_t> ids_;  // the last ids that were shown, and all that were not; where tokens
                              // depend on those around them
  size_t num_shown_ = 0;
};

}  // namespace tessera
