// What turns pieces of text into tokens: byte-pair encoding (bpe.h) or a unigram model (unigram.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/pattern/known_split.h"

namespace tessera {

// A token, and how many bytes of the piece it stands for; 0: those of the token before it.
struct ModelToken {
  int32_t id = 0;
  uint32_t bytes = 0;
};

// What one thread needs while it encodes, so that a piece allocates nothing.
class ModelWorkspace {
 public:
  ModelWorkspace() = default;
  virtual ~ModelWorkspace() = default;
  ModelWorkspace(const ModelWorkspace&) = delete;
  ModelWorkspace& operator=(const ModelWorkspace&) = delete;
};

// Immutable: any thread may use it, with a workspace of its own.
class TokenModel {
 public:
  TokenModel() = default;
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  // Strings of the vocabulary, counted once each.
  [[nodiscard]] virtual size_t vocab_size() const = 0;
  // One more than the highest id.
  [[nodiscard]] virtual int32_t id_limit() const = 0;
  [[nodiscard]] virtual int32_t id_of(std::string_view token) const = 0;  // or kNoToken
  // Empty for an id that has no token. As the file writes it.
  [[nodiscard]] virtual std::string_view token_of(int32_t id) const = 0;

  [[nodiscard]] virtual std::unique_ptr<ModelWorkspace> make_workspace() const = 0;
  // Appends the ids of a piece.
  virtual void encode(std::string_view piece, ModelWorkspace& workspace,
                      std::vector<int32_t>& ids) const = 0;
  // The same for every piece of a text that is split by a table.
  virtual void encode_split(std::string_view text, KnownSplit split, ModelWorkspace& workspace,
                            std::vector<int32_t>& ids) const;
  // As encode(), with the bytes of each.
  virtual void encode_with_bytes(std::string_view piece, ModelWorkspace& workspace,
                                 std::vector<ModelToken>& tokens) const = 0;
};

}  // namespace tessera
