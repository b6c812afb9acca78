// Megatron's .idx, beside a .bin of tokens: magic, version, type, counts, then the lengths of
// sequences (i32), where they begin (i64, in bytes) and which of them begin a document (i64).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "data/set/mapped_file.h"
#include "data/set/token_type.h"

namespace tessera {

// Mapped, not read. Any thread may use it.
class MegatronIndex {
 public:
  // Looks at the header and at sizes alone. Throws ConfigError with the file, the place and what to
  // do.
  static MegatronIndex open(const std::filesystem::path& path);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] TokenType type() const { return type_; }
  [[nodiscard]] int64_t sequences() const { return sequences_; }
  [[nodiscard]] int64_t documents() const { return document_entries_ - 1; }

  [[nodiscard]] int64_t length(int64_t sequence) const;          // in tokens
  [[nodiscard]] int64_t pointer(int64_t sequence) const;         // in bytes
  [[nodiscard]] int64_t first_sequence(int64_t document) const;  // documents(): one after the last

 private:
  MegatronIndex(MappedFile file, TokenType type, int64_t sequences, int64_t document_entries)
      : file_(std::move(file)),
        type_(type),
        sequences_(sequences),
        document_entries_(document_entries) {}

  MappedFile file_;
  TokenType type_;
  int64_t sequences_;
  int64_t document_entries_;  // one more than documents
};

// The type that Megatron takes for a vocabulary: u16 below 65500, else i32.
TokenType megatron_type(int64_t vocab_size);

// Writes the .idx of `documents` documents of one sequence each; `end_of(i)` is where document i
// ends, in tokens. Throws ConfigError for a document of 2^31 tokens or more, Error where it cannot
// be written.
void write_megatron_index(const std::filesystem::path& path, TokenType type, int64_t documents,
                          const std::function<int64_t(int64_t)>& end_of);

}  // namespace tessera
