// What tokenizer.json calls the decoder: how tokens become text again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/common/json_reader.h"

namespace tessera {

// Immutable; any thread may use it.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // The texts become other texts; joined, those of the last step are the decoded text.
  virtual void apply(std::vector<std::string>& texts) const = 0;
  // Every token gives its bytes, whatever is around it.
  [[nodiscard]] virtual bool is_byte_level() const { return false; }
  // A token may give a part of a character.
  [[nodiscard]] virtual bool cuts_characters() const { return is_byte_level(); }
  // The byte that a token such as "<0x41>" stands for, where runs of them become characters.
  [[nodiscard]] virtual std::optional<char> byte_of(std::string_view) const { return std::nullopt; }
};

// Null for null: tokens with blanks between them. Throws ConfigError for an unknown type, naming
// it.
std::unique_ptr<const TokenDecoder> read_decoder(const JsonPlace& place);

}  // namespace tessera
