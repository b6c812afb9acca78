#include "data/corpus.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/synth.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

void append_file(const fs::path& path, uintmax_t size, std::vector<uint8_t>& out) {
  std::ifstream in(path, std::ios::binary);
  require(in.is_open(), "cannot open data file '{}': check its permissions", path.string());
  const size_t start = out.size();
  out.resize(start + size);
  in.read(reinterpret_cast<char*>(out.data() + start), static_cast<std::streamsize>(size));
  require(static_cast<uintmax_t>(in.gcount()) == size,
          "data file '{}' ended after {} of {} bytes: it is unreadable or changes while it is read",
          path.string(), in.gcount(), size);
}

uintmax_t size_of(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  require(!error, "cannot read the size of data file '{}': {}", path.string(), error.message());
  return size;
}

// Follows links, so `path` is a regular file, a folder, or something to refuse or skip.
fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return status.type();
  require(!error, "cannot read '{}': {}", path.string(), error.message());
  return status.type();
}

// Collects the regular files below `folder`. `seen` holds the real path of every folder entered:
// entering each one at most once is what bounds the walk when links form a loop.
void collect_files(const fs::path& folder, std::set<fs::path>& seen, std::vector<fs::path>& files) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  require(!error, "cannot read data folder '{}': {}", folder.string(), error.message());
  require_config(seen.insert(real).second,
                 "data folder '{}' is reached twice through a link (it is '{}'): remove the link",
                 folder.string(), real.string());
  fs::directory_iterator entries(folder, error);
  require(!error, "cannot read data folder '{}': {}", folder.string(), error.message());
  while (entries != fs::directory_iterator()) {
    const fs::path path = entries->path();
    entries.increment(error);
    require(!error, "cannot read data folder '{}': {}", folder.string(), error.message());
    if (path.filename().string().starts_with('.')) continue;
    const fs::file_type type = type_of(path);
    require(type != fs::file_type::not_found, "'{}' is a link to nothing: remove it",
            path.string());
    if (type == fs::file_type::directory) collect_files(path, seen, files);
    if (type == fs::file_type::regular) files.push_back(path);
  }
}

std::vector<uint8_t> read_folder(const fs::path& folder) {
  std::set<fs::path> seen;
  std::vector<fs::path> files;
  collect_files(folder, seen, files);
  // As byte strings, not path by path component: the order is then the one `sort` shows.
  std::ranges::sort(files, {}, [](const fs::path& path) { return path.generic_string(); });
  std::vector<uintmax_t> sizes;
  uintmax_t total = 0;
  for (const fs::path& file : files) {
    sizes.push_back(size_of(file));
    total += sizes.back() + 1;
  }
  std::vector<uint8_t> bytes;
  bytes.reserve(total);
  for (size_t i = 0; i < files.size(); ++i) {
    if (sizes[i] == 0) continue;
    if (!bytes.empty()) bytes.push_back('\n');
    append_file(files[i], sizes[i], bytes);
  }
  return bytes;
}

}  // namespace

Corpus::Corpus(std::string name, std::vector<uint8_t> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {
  require_config(!bytes_.empty(), "data '{}' is empty: name a text file or a folder of text files",
                 name_);
}

Corpus Corpus::from_text(std::string name, const std::string& text) {
  return Corpus(std::move(name), std::vector<uint8_t>(text.begin(), text.end()));
}

Corpus Corpus::synthetic(uint64_t seed, int64_t bytes) {
  return from_text(fmt::format("synthetic stories, seed {}", seed), synth_stories(seed, bytes));
}

Corpus Corpus::from_path(const fs::path& path) {
  const fs::file_type type = type_of(path);
  require_config(type != fs::file_type::not_found,
                 "data '{}' does not exist: name a text file or a folder of text files",
                 path.string());
  if (type == fs::file_type::directory) return Corpus(path.string(), read_folder(path));
  require_config(type == fs::file_type::regular,
                 "data '{}' is neither a regular file nor a folder: copy its text into a file",
                 path.string());
  std::vector<uint8_t> bytes;
  append_file(path, size_of(path), bytes);
  return Corpus(path.string(), std::move(bytes));
}

void require_samples(const Corpus& corpus, int64_t seq_len) {
  require_config(seq_len > 0, "seq_len is {}: it must be positive", seq_len);
  require_config(corpus.size() > seq_len,
                 "data '{}' has {} tokens but one sample needs seq_len + 1 = {}; use more text or "
                 "a shorter seq_len",
                 corpus.name(), corpus.size(), static_cast<uint64_t>(seq_len) + 1);
}

}  // namespace tessera
