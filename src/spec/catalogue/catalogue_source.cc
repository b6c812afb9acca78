#include "spec/catalogue/catalogue_source.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kSuffix = ".toml";
constexpr size_t kMaxExtends = 16;

// Nothing that could leave the folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

std::optional<CatalogueSource> compiled_in(const CatalogueKind& kind, const auto& is_it) {
  for (const EmbeddedFile& file : kind.files()) {
    if (!is_it(file.name)) continue;
    return CatalogueSource{std::string(file.text),
                           fmt::format("{}/{}{}", kind.folder, file.name, kSuffix)};
  }
  return std::nullopt;
}

std::optional<CatalogueSource> in_user_folder(const CatalogueKind& kind, const std::string& name,
                                              const FileReader& read) {
  if (!read || !is_plain_name(name)) return std::nullopt;
  const std::string path = fmt::format("catalogue/{}/{}{}", kind.folder, name, kSuffix);
  try {
    return CatalogueSource{read(path), path};
  } catch (const ConfigError&) {
    return std::nullopt;  // no such file: the caller says what there is
  }
}

// The longest entry all of whose words a name has: "llama-3.1-8b" for "Meta-Llama-3.1-8B-Instruct",
// "a100-80" for "NVIDIA A100-SXM4-80GB". Entries of a few letters would be in anything.
std::string name_within(const std::string& name, const std::vector<std::string_view>& known) {
  constexpr size_t kShortest = 4;
  const std::string small = lower_case(name);
  std::string longest;
  for (const std::string_view entry : known) {
    const std::vector<std::string_view> words = split(entry, '-');
    const bool all = std::all_of(words.begin(), words.end(), [&](std::string_view word) {
      return small.find(word) != std::string::npos;
    });
    if (all && entry.size() >= kShortest && entry.size() > longest.size()) longest = entry;
  }
  return longest;
}

// Whether one name has the other in it as a whole piece: "4090" and "rtx-4090", "h100-sxm" and
// "h100".
bool has_piece(std::string_view name, std::string_view piece) {
  constexpr size_t kShortest = 3;
  const size_t at = piece.size() < kShortest ? name.npos : name.find(piece);
  if (at == name.npos) return false;
  const size_t end = at + piece.size();
  return (at == 0 || name[at - 1] == '-') && (end == name.size() || name[end] == '-');
}

// The entries that a name was probably meant to be, in quotes: those it is a piece of ("a100" for
// "a100-40" and "a100-80"), else the nearest one, else the longest that is a piece of it.
std::vector<std::string> names_meant(const std::string& name,
                                     const std::vector<std::string_view>& known) {
  constexpr size_t kMost = 4;
  const std::string small = lower_case(name);
  std::vector<std::string> meant;
  for (const std::string_view entry : known) {
    if (has_piece(entry, small)) meant.push_back(fmt::format("'{}'", entry));
  }
  if (!meant.empty() && meant.size() <= kMost) return meant;
  std::string nearest = nearest_name(name, known);
  for (const std::string_view entry : known) {
    const bool longer =
        nearest.empty() || (has_piece(small, nearest) && entry.size() > nearest.size());
    if (longer && has_piece(small, entry)) nearest = entry;
  }
  if (nearest.empty()) nearest = name_within(name, known);
  return nearest.empty() ? std::vector<std::string>() : std::vector{fmt::format("'{}'", nearest)};
}

}  // namespace

std::vector<std::string_view> names_of(const CatalogueKind& kind) {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : kind.files()) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<CatalogueSource> look_up(const CatalogueKind& kind, const std::string& name,
                                       const FileReader& read) {
  if (name.ends_with(kSuffix)) {
    require_config(read != nullptr, "{} {} is a file, and no file can be read here: name an entry",
                   kind.what, in_quotes(name));
    return CatalogueSource{read(name), name};
  }
  if (auto exact = compiled_in(kind, [&](std::string_view entry) { return entry == name; })) {
    return exact;
  }
  if (auto own = in_user_folder(kind, name, read)) return own;
  const std::string small = lower_case(name);
  return compiled_in(kind, [&](std::string_view entry) { return lower_case(entry) == small; });
}

CatalogueSource find_source(const CatalogueKind& kind, const std::string& name,
                            const FileReader& read) {
  std::optional<CatalogueSource> source = look_up(kind, name, read);
  if (!source) refuse_name(kind, name);
  return *std::move(source);
}

std::string meant_entries(const CatalogueKind& kind, const std::string& name) {
  const std::vector<std::string> meant = names_meant(name, names_of(kind));
  return meant.empty() ? "" : fmt::format(" (did you mean {}?)", fmt::join(meant, " or "));
}

void refuse_name(const CatalogueKind& kind, const std::string& name) {
  throw ConfigError(
      fmt::format("unknown {} {}{}; 'tessera presets {}' lists what is known; or give a file that "
                  "ends in .toml{}",
                  kind.what, in_quotes(name), meant_entries(kind, name), kind.folder,
                  kind.folder == "models" ? ", or a Hugging Face folder" : ""));
}

std::string beside(const std::string& file_name, const std::string& extended) {
  const size_t slash = file_name.rfind('/');
  if (!extended.ends_with(kSuffix) || extended.starts_with('/') || slash == std::string::npos) {
    return extended;
  }
  return file_name.substr(0, slash + 1) + extended;
}

void ExtendsChain::enter(const std::string& name, const std::string& at) {
  const std::string place = at.empty() ? "" : at + ": ";
  const auto seen = std::find(names_.begin(), names_.end(), name);
  require_config(seen == names_.end(), "{}a circle: {} extends {}; let one of them extend nothing",
                 place, fmt::join(seen, names_.end(), " extends "), name);
  names_.push_back(name);
  require_config(names_.size() <= kMaxExtends, "{}more than {} files extend each other", place,
                 kMaxExtends);
}

}  // namespace tessera
