// What rows say as text: operands and placement rules.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <span>
#include <stdexcept>
#include <string_view>

namespace tessera {

// Names of inputs and outputs, "q kv [o lse] > o lse": in brackets what may be missing, and
// "weights..." stands for one or more. The value that an accumulating node adds to is not named.
class Signature {
 public:
  struct Count {
    int least = 0, most = 0;
    [[nodiscard]] constexpr bool contains(size_t count) const {
      return count >= static_cast<size_t>(least) && count <= static_cast<size_t>(most);
    }
  };
  static constexpr int kAny = 1 << 20;

  constexpr Signature(const char* text)  // implicit: it is that text
      : text_(text), inputs_(count(before_arrow(text_))), outputs_(count(behind_arrow(text_))) {}

  [[nodiscard]] constexpr std::string_view text() const { return text_; }
  [[nodiscard]] constexpr Count inputs() const { return inputs_; }
  [[nodiscard]] constexpr Count outputs() const { return outputs_; }

 private:
  static constexpr size_t arrow(std::string_view text) {
    const size_t at = text.find('>');
    if (at == std::string_view::npos) throw std::logic_error("a signature needs '>'");
    return at;
  }
  static constexpr std::string_view before_arrow(std::string_view text) {
    return text.substr(0, arrow(text));
  }
  static constexpr std::string_view behind_arrow(std::string_view text) {
    return text.substr(arrow(text) + 1);
  }
  static constexpr Count count(std::string_view words) {
    Count count;
    bool optional = false;
    for (size_t at = words.find_first_not_of(' '); at != std::string_view::npos;) {
      const size_t end = std::min(words.find(' ', at), words.size());
      const std::string_view word = words.substr(at, end - at);
      if (word.front() == '[') optional = true;
      if (!optional) ++count.least;
      count.most += word.find("...") != std::string_view::npos ? kAny : 1;
      if (word.back() == ']') optional = false;
      at = words.find_first_not_of(' ', end);
    }
    return count;
  }

  std::string_view text_;
  Count inputs_, outputs_;
};

// Placement rules as text, inputs in the order of the node, then outputs: "S0 R > S0". A word in
// front says on which axes a rule holds: "data" on dp and fsdp, which split whole sequences;
// "tokens" also on cp, where rope knows the positions of a rank's tokens and attention is a ring;
// "cp" on cp alone. Where several match the last one holds. The gradient rules are the duals of the
// forward ones: a test derives them and compares.
class RuleTexts {
 public:
  template <std::convertible_to<std::string_view>... Texts>
  requires(sizeof...(Texts) > 0) constexpr RuleTexts(Texts... texts)  // implicit: a list of texts
      : texts_{std::string_view(texts)...}, size_(sizeof...(Texts)) {}
  // For an op whose type rule gives placements too, or that is never in a graph.
  static constexpr RuleTexts none() {
    RuleTexts rules("");
    rules.size_ = 0;
    return rules;
  }

  [[nodiscard]] constexpr std::span<const std::string_view> all() const {
    return std::span(texts_).first(size_);
  }

 private:
  static constexpr size_t kMost = 8;
  std::array<std::string_view, kMost> texts_{};
  size_t size_;
};

}  // namespace tessera
