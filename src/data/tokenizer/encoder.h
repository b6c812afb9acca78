// Text into tokens, on one thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "data/tokenizer/common/piece.h"
#include "data/tokenizer/model/model.h"
#include "data/tokenizer/steps/added_tokens.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {

struct Encoding {
  std::vector<int32_t> ids;
  // Which characters (not bytes) of the text each id stands for; special ones: 0 to 0.
  std::vector<ByteRange> offsets;
};

// Keeps what it saw lately, so one encoder for many texts is faster than one for each. Not
// thread-safe; the tokenizer must outlive it.
class TokenEncoder {
 public:
  explicit TokenEncoder(const Tokenizer& tokenizer);

  // Appends the ids of a text. What is not UTF-8 in it counts as U+FFFD. `add_special`: with the
  // special tokens that the tokenizer puts around a text. Throws Error for a text of 4 GiB or more.
  void encode(std::string_view text, bool add_special, std::vector<int32_t>& ids);
  // Where the text is not UTF-8, offsets are those of the text with U+FFFD.
  Encoding encode_with_offsets(std::string_view text, bool add_special);

 private:
  [[nodiscard]] std::string_view valid(std::string_view text);
  void encode_text(std::string_view text, std::vector<int32_t>& ids);
  void encode_between(std::string_view text, uint32_t begin, std::vector<int32_t>& ids);
  void split_directly(std::string_view text, std::vector<int32_t>& ids);
  // The pieces of a text, cut and normalized but not yet split.
  [[nodiscard]] std::vector<TextPiece> cut_pieces(std::string_view text, uint32_t begin,
                                                  bool tracked);

  const Tokenizer& tokenizer_;
  const TokenizerParts& parts_;
  std::unique_ptr<ModelWorkspace> workspace_;
  std::vector<AddedTokens::Cut> cuts_;
  std::vector<int32_t> text_ids_;
  std::string valid_;
  std::string prefixed_;
};

}  // namespace tessera
