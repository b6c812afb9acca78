// Writes a set of tokens, document by document, in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/set/block_sums.h"
#include "data/set/output_bytes.h"
#include "data/set/set_description.h"

namespace tessera {

enum class SetFormat : uint8_t { kTessera, kMegatron };

// Where a set is: kTessera makes the folder PLACE, kMegatron PLACE.bin and PLACE.idx.
struct SetPlace {
  SetFormat format = SetFormat::kTessera;
  std::filesystem::path place;

  [[nodiscard]] std::filesystem::path tokens() const;
  [[nodiscard]] std::filesystem::path document_ends() const;  // Megatron: until it is finished
  [[nodiscard]] std::filesystem::path head() const;           // what makes it a set, written last
};

// One thread. Every failure throws Error with the file and the reason.
class SetWriter {
 public:
  // A new one, in the place of what is there. `facts`: type, vocabulary, end token and tokenizer.
  SetWriter(SetPlace place, SetDescription facts);
  // Goes on from state(), dropping what was written since. Throws ConfigError where less is there
  // than `state` says.
  SetWriter(SetPlace place, SetDescription facts, const nlohmann::json& state);

  // Tokens of the document at hand; ids must fit the vocabulary.
  void append(std::span<const int32_t> ids);
  void end_document();

  // Tokens as they are in the file, made elsewhere.
  struct Written {
    std::span<const std::byte> tokens;
    std::span<const uint32_t> ends;  // of documents, in these tokens
    uint32_t crc32 = 0;              // of them
    int64_t largest_id = 0;
  };
  void append(const Written& written);

  // All of it is on the disk then, and state() is how to go on.
  nlohmann::json save();
  // Writes the head. Nothing may follow.
  void finish();

  [[nodiscard]] int64_t tokens() const { return facts_.tokens; }
  [[nodiscard]] int64_t documents() const { return facts_.documents; }

 private:
  template <typename T>
  void append_as(std::span<const int32_t> ids);
  void add_ends(std::span<const uint64_t> ends);

  SetPlace place_;
  SetDescription facts_;
  OutputBytes tokens_, ends_;
  BlockSums token_sums_, end_sums_;
  std::vector<std::byte> narrow_;
  std::vector<uint64_t> wide_ends_;
};

}  // namespace tessera
