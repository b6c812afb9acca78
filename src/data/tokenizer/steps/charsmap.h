// SentencePiece's compiled character map: what parts of a text become. A little-endian u32 with the
// size of a trie in bytes, the trie (a double array of 32-bit units, as darts-clone writes them),
// and the replacements, each ended by NUL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Immutable; any thread may use it.
class Charsmap {
 public:
  // The longest part that is looked up: what is five bytes deep in the trie is all that is checked,
  // and all that is read.
  static constexpr size_t kMostBytes = 5;

  // Throws ConfigError for bytes that are no such map: which unit or replacement is wrong.
  explicit Charsmap(std::string_view bytes);

  // What a part of at most kMostBytes bytes becomes: the replacement of the shortest key that it
  // begins with, as the reference library has it. Nothing: no key is a prefix of it.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view part) const;

 private:
  void check() const;
  void check_value(size_t node, size_t base) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace tessera
