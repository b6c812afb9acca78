// One answer as it grows: tokens in, certain text out, with the tokens that it is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/api/stop_strings.h"
#include "serve/api/words.h"
#include "serve/sampling.h"

namespace tessera::serve {

// More of an answer.
struct TextPart {
  std::string text;  // whole characters
  std::vector<SampledToken> tokens;
  std::vector<int64_t> offsets;  // of each token: characters of the answer before it
  [[nodiscard]] bool empty() const { return text.empty() && tokens.empty(); }
  void append(TextPart more);
};

// Not thread-safe; the words must outlive it.
class ChoiceText {
 public:
  // `keep_tokens`: parts have their tokens.
  ChoiceText(const Words& words, std::vector<std::string> stops, bool keep_tokens)
      : has_text_(words.has_text()),
        decoder_(words.decoder()),
        stops_(std::move(stops)),
        keep_tokens_(keep_tokens) {}

  // What the answer goes on from: some tokenizers write the first token of a text in another way,
  // without the space before it. Before the first push().
  void go_on_from(std::span<const int32_t> prompt);
  // Text that stands before the answer (echo); comes out with the next part.
  void begin_with(TextPart part);
  TextPart push(SampledToken token);
  // The end, where no stop string has come.
  TextPart finish();
  [[nodiscard]] bool stopped() const { return stops_.stopped(); }
  [[nodiscard]] int64_t num_tokens() const { return num_tokens_; }

 private:
  TextPart take(std::string certain, bool last);

  bool has_text_;
  std::unique_ptr<TextDecoder> decoder_;
  StopStrings stops_;
  bool keep_tokens_;
  int64_t num_tokens_ = 0;
  // Tokens come out with the first text behind them, so that a stop string takes its own along.
  struct Waiting {
    SampledToken token;
    size_t begin;  // bytes of decoded text before it
  };
  std::vector<Waiting> waiting_;
  size_t decoded_ = 0, shown_ = 0;  // bytes
  std::string uncounted_;           // certain text, from uncounted_begin_ on
  size_t uncounted_begin_ = 0;
  int64_t characters_ = 0;  // before uncounted_begin_
  TextPart first_;
};

// Characters of a text that is UTF-8.
int64_t count_characters(std::string_view text);

}  // namespace tessera::serve
