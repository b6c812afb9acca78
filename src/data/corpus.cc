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

std::ifstream open_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  require(in.is_open(), "cannot open data file '{}': check its permissions", path.string());
  return in;
}

void append_file(const fs::path& path, uintmax_t size, std::vector<uint8_t>& out) {
  std::ifstream in = open_file(path);
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

struct SizedFile {
  fs::path path;
  uintmax_t size = 0;
};

// What a text is made of: the file, or those of the folder that are not empty, in order.
std::vector<SizedFile> files_of(const fs::path& path) {
  const fs::file_type type = type_of(path);
  require_config(type != fs::file_type::not_found,
                 "data '{}' does not exist: name a text file or a folder of text files",
                 path.string());
  if (type != fs::file_type::directory) {
    require_config(type == fs::file_type::regular,
                   "data '{}' is neither a regular file nor a folder: copy its text into a file",
                   path.string());
    return {{path, size_of(path)}};
  }
  std::set<fs::path> seen;
  std::vector<fs::path> files;
  collect_files(path, seen, files);
  // As byte strings, not path by path component: the order is then the one `sort` shows.
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.generic_string(); });
  std::vector<SizedFile> sized;
  for (const fs::path& file : files) {
    if (const uintmax_t size = size_of(file); size > 0) sized.push_back({file, size});
  }
  return sized;
}

// With a newline between two files.
uintmax_t total_size(const std::vector<SizedFile>& files) {
  uintmax_t total = files.empty() ? 0 : files.size() - 1;
  for (const SizedFile& file : files) total += file.size;
  return total;
}

void require_text(const std::string& name, uintmax_t size) {
  require_config(size > 0, "data '{}' is empty: name a text file or a folder of text files", name);
}

}  // namespace

Corpus::Corpus(std::string name, std::vector<uint8_t> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {
  require_text(name_, bytes_.size());
}

Corpus Corpus::from_text(std::string name, const std::string& text) {
  return Corpus(std::move(name), std::vector<uint8_t>(text.begin(), text.end()));
}

Corpus Corpus::synthetic(uint64_t seed, int64_t bytes) {
  return from_text(fmt::format("synthetic stories, seed {}", seed), synth_stories(seed, bytes));
}

Corpus Corpus::from_path(const fs::path& path) {
  const std::vector<SizedFile> files = files_of(path);
  std::vector<uint8_t> bytes;
  bytes.reserve(total_size(files));
  for (const SizedFile& file : files) {
    if (!bytes.empty()) bytes.push_back('\n');
    append_file(file.path, file.size, bytes);
  }
  return Corpus(path.string(), std::move(bytes));
}

int64_t Corpus::size_of_path(const fs::path& path) {
  const std::vector<SizedFile> files = files_of(path);
  for (const SizedFile& file : files) (void)open_file(file.path);
  const uintmax_t size = total_size(files);
  require_text(path.string(), size);
  return static_cast<int64_t>(size);
}

std::vector<fs::path> text_files(const fs::path& path) {
  std::vector<fs::path> files;
  for (SizedFile& file : files_of(path)) files.push_back(std::move(file.path));
  return files;
}

void require_samples(const std::string& name, int64_t tokens, int64_t seq_len) {
  require_config(seq_len > 0, "seq_len is {}: it must be positive", seq_len);
  require_config(tokens > seq_len,
                 "data '{}' has {} tokens but one sample needs seq_len + 1 = {}; use more text or "
                 "a shorter seq_len",
                 name, tokens, static_cast<uint64_t>(seq_len) + 1);
}

}  // namespace tessera
