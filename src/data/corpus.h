// The training text as byte-level tokens: token i is byte i, the vocabulary is the 256 bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

inline constexpr int64_t kByteTokens = 256;

// Owns its bytes, in one contiguous vector. Never empty; immutable, so any thread may read.
class Corpus {
 public:
  // A text in memory; `name` stands for it in messages. Throws ConfigError if it is empty.
  static Corpus from_text(std::string name, const std::string& text);

  // synth_stories(seed, bytes).
  static Corpus synthetic(uint64_t seed, int64_t bytes);

  // The size of from_path()'s text, found without reading it. Throws what from_path() would for a
  // path, a folder or a file that it cannot open.
  static int64_t size_of_path(const std::filesystem::path& path);

  // A regular file, or a folder: every regular file below it, sorted by relative path, a newline
  // between two files. Hidden (.name) entries and empty files are skipped, links are followed.
  // Throws ConfigError if the path does not exist, is neither file nor folder, holds no data, or
  // reaches a folder twice through a link; Error if something cannot be read.
  static Corpus from_path(const std::filesystem::path& path);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  [[nodiscard]] int64_t vocab() const { return kByteTokens; }
  [[nodiscard]] int32_t token_at(int64_t i) const { return bytes_[static_cast<size_t>(i)]; }

 private:
  Corpus(std::string name, std::vector<uint8_t> bytes);

  std::string name_;
  std::vector<uint8_t> bytes_;
};

// The files that Corpus::from_path() would read, in its order. Throws what it would for the path.
std::vector<std::filesystem::path> text_files(const std::filesystem::path& path);

// Throws ConfigError unless a text of so many tokens holds at least one sample, seq_len + 1 tokens.
void require_samples(const std::string& name, int64_t tokens, int64_t seq_len);
inline void require_samples(const Corpus& corpus, int64_t seq_len) {
  require_samples(corpus.name(), corpus.size(), seq_len);
}

}  // namespace tessera
