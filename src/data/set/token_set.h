// Tokens of documents, one after another, in a file that is mapped (docs/data.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "data/set/mapped_file.h"
#include "data/set/megatron.h"
#include "data/set/set_description.h"
#include "data/set/token_type.h"

namespace tessera {

// A folder that `tessera data prepare` wrote, or a pair of Megatron's .bin and .idx. Immutable: any
// thread may read. Opening one looks at headers and sizes alone, and takes no memory for tokens.
class TokenSet {
 public:
  // The folder, or the prefix of PREFIX.bin and PREFIX.idx (also the name of either). Throws
  // ConfigError with the file, the place and what to do.
  static TokenSet open(const std::filesystem::path& path);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_megatron() const { return index_.has_value(); }
  [[nodiscard]] TokenType type() const { return set_.type; }
  [[nodiscard]] int64_t size() const { return set_.tokens; }
  [[nodiscard]] int64_t documents() const { return set_.documents; }
  [[nodiscard]] int64_t vocab_size() const { return set_.vocab_size; }  // 0: not known
  [[nodiscard]] int64_t end_token() const { return set_.end_token; }    // -1: not known
  // The tokenizer's fingerprint, empty where it is not known, and where its tokenizer.json would
  // be.
  [[nodiscard]] const std::string& tokenizer() const { return set_.tokenizer; }
  [[nodiscard]] const std::filesystem::path& tokenizer_folder() const { return folder_; }

  // Tokens [first, first + out.size()), which must be of the set. Throws ConfigError with the place
  // of a token that is negative, beyond 2^31 - 1, or not below `vocab` (0: any).
  void copy(int64_t first, std::span<int32_t> out, int64_t vocab = 0) const;

  // For those who look at all of it (check_set.h).
  [[nodiscard]] const SetDescription& description() const { return set_; }
  [[nodiscard]] const MappedFile& tokens() const { return tokens_; }
  [[nodiscard]] const MappedFile& document_ends() const { return *document_ends_; }  // not Megatron
  [[nodiscard]] const MegatronIndex& index() const { return *index_; }               // Megatron

 private:
  TokenSet(std::string name, std::filesystem::path folder, SetDescription set, MappedFile tokens);
  static TokenSet open_folder(const std::filesystem::path& folder);
  static TokenSet open_megatron(const std::filesystem::path& prefix);

  std::string name_;
  std::filesystem::path folder_;
  SetDescription set_;
  MappedFile tokens_;
  std::optional<MappedFile> document_ends_;
  std::optional<MegatronIndex> index_;
};

}  // namespace tessera
