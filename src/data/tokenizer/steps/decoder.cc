#include "data/tokenizer/steps/decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text/printable.h"
#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/common/metaspace.h"
#include "data/tokenizer/pattern/pattern.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

class ByteLevelDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& texts) const override {
    std::string bytes;
    for (const std::string& text : texts) bytes += bytes_of(text).value_or(text);
    texts.assign(1, "");
    append_lossy(bytes, texts.front());
  }
  [[nodiscard]] bool is_byte_level() const override { return true; }
};

// "<0x41>" -> 0x41.
std::optional<char> fallback_byte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  // The library's parser takes a sign before a digit too.
  const char* first = text.data() + (text[3] == '+' ? 4 : 3);
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(first, text.data() + 5, byte, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

class ByteFallbackDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& texts) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (valid_prefix(bytes) == bytes.size()) {
        out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), std::string(kReplacementCharacter));
      }
      bytes.clear();
    };
    for (std::string& text : texts) {
      if (const std::optional<char> byte = fallback_byte(text)) {
        bytes.push_back(*byte);
        continue;
      }
      flush();
      out.push_back(std::move(text));
    }
    flush();
    texts = std::move(out);
  }
  [[nodiscard]] std::optional<char> byte_of(std::string_view token) const override {
    return fallback_byte(token);
  }
};

class FuseDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& texts) const override { texts.assign(1, joined(texts)); }
};

class StripDecoder : public TokenDecoder {
 public:
  StripDecoder(uint32_t content, size_t start, size_t stop) : start_(start), stop_(stop) {
    append_utf8(content, content_);
  }
  void apply(std::vector<std::string>& texts) const override {
    for (std::string& text : texts) {
      std::string_view rest = text;
      for (size_t i = 0; i < start_ && rest.starts_with(content_); ++i) {
        rest.remove_prefix(content_.size());
      }
      for (size_t i = 0; i < stop_ && rest.ends_with(content_); ++i) {
        rest.remove_suffix(content_.size());
      }
      if (rest.size() != text.size()) text = std::string(rest);
    }
  }

 private:
  std::string content_;
  size_t start_;
  size_t stop_;
};

class ReplaceDecoder : public TokenDecoder {
 public:
  ReplaceDecoder(std::unique_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& texts) const override {
    std::vector<Part> parts;
    for (std::string& text : texts) {
      pattern_->find(text, parts);
      std::string made;
      for (const Part& part : parts) {
        if (part.is_match) {
          made += content_;
        } else {
          made.append(text, part.begin, part.end - part.begin);
        }
      }
      text = std::move(made);
    }
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

class MetaspaceDecoder : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(Metaspace options) : options_(std::move(options)) {}
  void apply(std::vector<std::string>& texts) const override {
    for (size_t i = 0; i < texts.size(); ++i) {
      const bool drops = i == 0 && options_.prepend != PrependScheme::kNever;
      texts[i] = with_blanks(texts[i], drops ? "" : " ");
    }
  }

 private:
  [[nodiscard]] std::string with_blanks(const std::string& text, std::string_view blank) const {
    std::string made;
    size_t from = 0;
    for (size_t at = text.find(options_.replacement); at != text.npos;
         at = text.find(options_.replacement, from)) {
      made.append(text, from, at - from);
      made += blank;
      from = at + options_.replacement.size();
    }
    return made.append(text, from);
  }
  Metaspace options_;
};

class SequenceDecoder : public TokenDecoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<const TokenDecoder>> steps)
      : steps_(std::move(steps)) {}
  void apply(std::vector<std::string>& texts) const override {
    for (const auto& step : steps_) step->apply(texts);
  }
  [[nodiscard]] bool is_byte_level() const override {
    return steps_.size() == 1 && steps_.front()->is_byte_level();
  }
  [[nodiscard]] bool cuts_characters() const override {
    return std::any_of(steps_.begin(), steps_.end(),
                       [](const auto& step) { return step->cuts_characters(); });
  }
  [[nodiscard]] std::optional<char> byte_of(std::string_view token) const override {
    for (const auto& step : steps_) {
      if (const std::optional<char> byte = step->byte_of(token)) return byte;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::unique_ptr<const TokenDecoder>> steps_;
};

}  // namespace

std::unique_ptr<const TokenDecoder> read_decoder(const JsonPlace& place) {
  if (place.is_null()) return nullptr;
  const std::string type = place.type();
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Strip") {
    return std::make_unique<StripDecoder>(place.at("content").character(),
                                          static_cast<size_t>(place.at("start").whole()),
                                          static_cast<size_t>(place.at("stop").whole()));
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceDecoder>(read_pattern(place.at("pattern")),
                                            place.at("content").text());
  }
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(read_metaspace(place));
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const TokenDecoder>> steps;
    for (const JsonPlace& step : place.at("decoders").items()) {
      if (step.is_null()) step.fail("expected a decoder");
      steps.push_back(read_decoder(step));
    }
    return std::make_unique<SequenceDecoder>(std::move(steps));
  }
  place.fail(fmt::format(
      "decoder '{}' is not supported; known: ByteLevel, ByteFallback, Fuse, Strip, Replace, "
      "Metaspace, Sequence",
      shortened(type)));
}

}  // namespace tessera
