// Where the entries of a catalogue come from: TOML files that are compiled in, or a user's own. One
// reader for models, devices, clusters and engines; what is in an entry is the affair of each.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded.h"
#include "spec/file_reader.h"

namespace tessera {

struct CatalogueKind {
  std::string_view folder;  // of catalogue/: "devices"
  std::string_view what;    // in messages: "device"
  std::span<const EmbeddedFile> (*files)();
};

struct CatalogueSource {
  std::string text;
  std::string file_name;  // where errors point
};

// Sorted.
std::vector<std::string_view> names_of(const CatalogueKind& kind);

// `name` is an entry, in letters of any case, a path that ends in .toml, or NAME for
// catalogue/FOLDER/NAME.toml in the current folder. Nothing where there is no such entry.
std::optional<CatalogueSource> look_up(const CatalogueKind& kind, const std::string& name,
                                       const FileReader& read);
// Throws ConfigError with the nearest known name instead.
CatalogueSource find_source(const CatalogueKind& kind, const std::string& name,
                            const FileReader& read);
// " (did you mean 'a' or 'b'?)", or empty where no entry is near.
std::string meant_entries(const CatalogueKind& kind, const std::string& name);
[[noreturn]] void refuse_name(const CatalogueKind& kind, const std::string& name);

// A file that another one extends lies beside it.
std::string beside(const std::string& file_name, const std::string& extended);

// The files on the way from an entry to the one it extends last.
class ExtendsChain {
 public:
  ExtendsChain(const FileReader& read, std::string first) : read_(read), names_{std::move(first)} {}

  // Throws ConfigError where the way goes round in a circle, or on for too long; `at` is the place
  // of the word "extends", or empty.
  void enter(const std::string& name, const std::string& at);
  [[nodiscard]] const FileReader& read() const { return read_; }

 private:
  const FileReader& read_;
  std::vector<std::string> names_;
};

}  // namespace tessera
