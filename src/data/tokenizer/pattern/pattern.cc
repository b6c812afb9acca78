#include "data/tokenizer/pattern/pattern.h"

#include <utility>

#include "base/error.h"
#include "data/tokenizer/pattern/known_split.h"
#include "data/tokenizer/pattern/regex.h"

namespace tessera {
namespace {

class TextPattern : public Pattern {
 public:
  explicit TextPattern(std::string text) : text_(std::move(text)) {}
  void find(std::string_view text, std::vector<Part>& parts) const override {
    parts.clear();
    size_t covered = 0;
    const auto push = [&](size_t end, bool is_match) {
      if (end > covered) {
        parts.push_back({static_cast<uint32_t>(covered), static_cast<uint32_t>(end), is_match});
      }
      covered = end;
    };
    while (!text_.empty()) {
      const size_t found = text.find(text_, covered);
      if (found == text.npos) break;
      push(found, false);
      push(found + text_.size(), true);
    }
    push(text.size(), false);
  }

 private:
  std::string text_;
};

class RegexPattern : public Pattern {
 public:
  explicit RegexPattern(std::string pattern) : regex_(std::move(pattern)) {}
  void find(std::string_view text, std::vector<Part>& parts) const override {
    regex_.find(text, parts);
  }

 private:
  Regex regex_;
};

class KnownPattern : public Pattern {
 public:
  explicit KnownPattern(KnownSplit split) : split_(split), table_(character_table()) {}
  void find(std::string_view text, std::vector<Part>& parts) const override {
    parts.clear();
    for (size_t at = 0; at < text.size();) {
      const size_t end = end_of_piece(split_, text, at, table_);
      parts.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(end), true});
      at = end;
    }
  }

 private:
  KnownSplit split_;
  const uint8_t* table_;
};

}  // namespace

std::unique_ptr<const Pattern> text_pattern(std::string text) {
  return std::make_unique<TextPattern>(std::move(text));
}

std::unique_ptr<const Pattern> regex_pattern(std::string pattern) {
  if (const auto known = known_split(pattern)) return std::make_unique<KnownPattern>(*known);
  return std::make_unique<RegexPattern>(std::move(pattern));
}

std::unique_ptr<const Pattern> read_pattern(const JsonPlace& place) {
  if (place.has("String")) {
    std::string text = place.at("String").text();
    // The library makes expressions of texts: an empty one matches between all characters.
    return text.empty() ? regex_pattern("") : text_pattern(std::move(text));
  }
  if (!place.has("Regex")) place.fail("expected {\"String\": ...} or {\"Regex\": ...}");
  const JsonPlace regex = place.at("Regex");
  try {
    return regex_pattern(regex.text());
  } catch (const ConfigError& error) {
    regex.fail(error.what());
  }
}

}  // namespace tessera
