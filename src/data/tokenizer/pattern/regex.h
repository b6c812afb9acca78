// Regular expressions of tokenizer.json, over PCRE2 with its just-in-time compiler.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/common/piece.h"

namespace tessera {

// Immutable once made: any thread may use it.
class Regex {
 public:
  // Throws ConfigError, with the pattern and the reason, for one that PCRE2 does not take or that
  // would mean something else there (regex_translation.h).
  explicit Regex(std::string pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  [[nodiscard]] const std::string& pattern() const { return pattern_; }

  // Matches and what is between them, in order and covering `text`, which is valid UTF-8. Throws
  // Error where a match takes more than its bounded steps and memory.
  void find(std::string_view text, std::vector<Part>& parts) const;

 private:
  struct Compiled;
  std::string pattern_;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace tessera
