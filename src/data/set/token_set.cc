#include "data/set/token_set.h"

#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMakeAgain =
    "copy the set again from where it is whole, or run 'tessera data prepare' again";

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string read_description(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  require(!error, "cannot read '{}': {}", path.string(), error.message());
  require_config(size <= kMostJsonBytes, "'{}' has {} bytes, more than the limit of {}: {}",
                 path.string(), size, kMostJsonBytes, kMakeAgain);
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  require(!in.bad() && text.size() == size, "cannot read '{}'", path.string());
  return text;
}

// What somebody may have meant who named a folder that is no set.
[[noreturn]] void refuse_folder(const fs::path& folder) {
  const std::string name = folder.string();
  require_config(!is_file(folder / "prepare.json"),
                 "'{}' is not finished: run its 'tessera data prepare' once more, which goes on "
                 "where it stopped",
                 name);
  const fs::path train = folder / "train";
  require_config(!is_file(train / kSetFile) && !is_file(train.string() + ".idx"),
                 "'{}' holds sets: name one of them, '{}'", name, train.string());
  throw ConfigError(fmt::format(
      "'{}' is no set of tokens (it has no {}): 'tessera data prepare' makes one, data.path reads "
      "text",
      name, kSetFile));
}

void require_bytes(const MappedFile& file, int64_t bytes, const std::string& by) {
  require_config(file.size() == bytes,
                 "'{}' has {} bytes, but by '{}' it must have {}: it is {}; {}", file.path(),
                 file.size(), by, bytes, file.size() < bytes ? "cut off" : "of another set",
                 kMakeAgain);
}

fs::path without_ending(const fs::path& path) {
  const std::string ending = path.extension().string();
  if (ending != ".bin" && ending != ".idx") return path;
  return path.parent_path() / path.stem();
}

}  // namespace

TokenSet::TokenSet(std::string name, fs::path folder, SetDescription set, MappedFile tokens)
    : name_(std::move(name)),
      folder_(std::move(folder)),
      set_(std::move(set)),
      tokens_(std::move(tokens)) {}

TokenSet TokenSet::open(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (!is_file(path / kSetFile)) refuse_folder(path);
    return open_folder(path);
  }
  const fs::path prefix = without_ending(path);
  const bool has_tokens = is_file(prefix.string() + ".bin");
  const bool has_index = is_file(prefix.string() + ".idx");
  require_config(has_tokens || has_index || !is_file(path),
                 "'{}' is a file, not a set of tokens: data.path reads text, 'tessera data "
                 "prepare' makes a set of it",
                 path.string());
  require_config(has_tokens || has_index,
                 "'{}' does not exist: name a folder that 'tessera data prepare' wrote, or the "
                 "prefix of Megatron's PREFIX.bin and PREFIX.idx",
                 path.string());
  require_config(has_tokens && has_index, "'{}.{}' is missing beside '{}.{}': copy both",
                 prefix.string(), has_tokens ? "idx" : "bin", prefix.string(),
                 has_tokens ? "bin" : "idx");
  return open_megatron(prefix);
}

TokenSet TokenSet::open_folder(const fs::path& folder) {
  const std::string by = (folder / kSetFile).string();
  SetDescription set = parse_set_description(read_description(by), by);
  TokenSet opened(folder.string(), folder, std::move(set), MappedFile::open(folder / kTokensFile));
  opened.document_ends_.emplace(MappedFile::open(folder / kDocumentsFile));
  const SetDescription& facts = opened.set_;
  require_bytes(opened.tokens_, facts.tokens * bytes_of(facts.type), by);
  require_bytes(*opened.document_ends_, facts.documents * static_cast<int64_t>(sizeof(uint64_t)),
                by);
  return opened;
}

TokenSet TokenSet::open_megatron(const fs::path& prefix) {
  MegatronIndex index = MegatronIndex::open(prefix.string() + ".idx");
  MappedFile tokens = MappedFile::open(prefix.string() + ".bin");
  const int64_t token_bytes = bytes_of(index.type());
  int64_t end = 0;
  if (index.sequences() > 0) {
    const int64_t last = index.sequences() - 1;
    const int64_t pointer = index.pointer(last), length = index.length(last);
    require_config(pointer >= 0 && length >= 0 && pointer <= INT64_MAX - length * token_bytes,
                   "'{}': its last sequence begins at byte {} and has {} tokens: it is damaged; "
                   "copy it again, or prepare the corpus again",
                   index.path(), pointer, length);
    end = pointer + length * token_bytes;
  }
  require_bytes(tokens, end, index.path());
  SetDescription set;
  set.type = index.type();
  set.tokens = end / token_bytes;
  set.documents = index.documents();
  fs::path folder = prefix.parent_path();
  if (folder.empty()) folder = ".";
  TokenSet opened(prefix.string(), std::move(folder), std::move(set), std::move(tokens));
  opened.index_.emplace(std::move(index));
  return opened;
}

void TokenSet::copy(int64_t first, std::span<int32_t> out, int64_t vocab) const {
  TESSERA_CHECK(first >= 0 && first <= size() - std::ssize(out), "tokens {} to {} of {}", first,
                first + std::ssize(out), size());
  bool valid = read_tokens(tokens_.bytes().data(), set_.type, first, out);
  if (vocab > 0) {
    for (const int32_t token : out) valid = valid && token < vocab;
  }
  if (valid) return;
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t at = first + static_cast<int64_t>(i);
    require_config(out[i] >= 0,
                   "'{}': token {} (byte {}) is no id: it is negative or beyond 2^31 - 1; the file "
                   "is damaged, or of another type",
                   tokens_.path(), at, at * bytes_of(set_.type));
    require_config(vocab == 0 || out[i] < vocab,
                   "'{}': token {} (byte {}) has the id {}, but the vocabulary has {}: use "
                   "model.vocab > {}, or the tokenizer that made the set",
                   tokens_.path(), at, at * bytes_of(set_.type), out[i], vocab, out[i]);
  }
}

}  // namespace tessera
