// What each token of a vocabulary adds to a text, as bytes, and a trie of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {
class Tokenizer;
}

namespace tessera::serve {

// Immutable: any thread may use it. Made once for each model: a pass over its vocabulary.
class TokenBytes {
 public:
  // Inside a text: what a decoder does to the first token alone (a blank that it drops) is not in
  // it. Special tokens have no bytes.
  static std::shared_ptr<const TokenBytes> of(const Tokenizer& tokenizer);
  // The tokens of a model that reads bytes: token i is byte i.
  static std::shared_ptr<const TokenBytes> single_bytes();
  // Token i writes bytes[i]; empty: nothing, so that no grammar allows it.
  explicit TokenBytes(std::vector<std::string> bytes);

  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(bytes_.size()); }
  // Empty for ids without bytes, and for those that are not in the vocabulary.
  [[nodiscard]] std::string_view bytes_of(int32_t token) const;

  // A beginning of tokens. Nodes lie in depth-first order without the root: the subtree of node i
  // ends before node `skip`, its first child is i + 1.
  struct Node {
    uint32_t skip = 0;
    uint32_t first_token = 0;  // in tokens_at(); up to that of the next node
    uint16_t depth = 0;        // bytes, its own included
    uint8_t byte = 0;
  };
  [[nodiscard]] std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  // Those that are written so, whole.
  [[nodiscard]] std::span<const int32_t> tokens_at(size_t node) const {
    const size_t begin = nodes_[node].first_token;
    return {tokens_.data() + begin, nodes_[node + 1].first_token - begin};
  }
  [[nodiscard]] uint32_t longest() const { return longest_; }

 private:
  std::vector<std::string> bytes_;
  std::vector<Node> nodes_;  // and one after the last
  std::vector<int32_t> tokens_;
  uint32_t longest_ = 0;
};

}  // namespace tessera::serve
