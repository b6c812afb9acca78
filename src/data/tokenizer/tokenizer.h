// A tokenizer as Hugging Face's tokenizer.json describes it (docs/tokenizers.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/common/piece.h"

namespace tessera {

struct TokenizerParts;

// Immutable: any thread may use it. Encoding needs a TokenEncoder for each thread.
class Tokenizer {
 public:
  // A file, or a folder with a tokenizer.json. Throws ConfigError with the place in the file for
  // what is missing, damaged or not supported, and Error for a file that cannot be read.
  static Tokenizer load(const std::filesystem::path& path);
  // The text of such a file; `name` stands for it in messages.
  static Tokenizer parse(std::string_view json, const std::string& name);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // One more than the highest id: how many rows an embedding needs at least.
  [[nodiscard]] int32_t vocab_size() const;
  // Two tokenizers with the same one give the same ids (fingerprint.h).
  [[nodiscard]] const std::string& fingerprint() const;
  // -1 where no token is written so. Added tokens come first.
  [[nodiscard]] int32_t id_of(std::string_view token) const;
  // As the file writes it; empty for an id without a token.
  [[nodiscard]] std::string_view token_of(int32_t id) const;
  [[nodiscard]] bool is_special(int32_t id) const;

  // Ids without a token are left out. The text is valid UTF-8: U+FFFD stands for bytes that are
  // not.
  [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool skip_special) const;
  // A token as decoding sees it: one that is normalized on its way in is normalized here.
  [[nodiscard]] std::string_view text_of(int32_t id) const;

  [[nodiscard]] const TokenizerParts& parts() const { return *parts_; }

 private:
  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  std::unique_ptr<const TokenizerParts> parts_;
};

}  // namespace tessera
