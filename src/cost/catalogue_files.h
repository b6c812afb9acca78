// The files of catalogue/, which the build compiles in (cmake/catalogue.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tessera {

struct CatalogueFile {
  std::string_view kind;  // "devices" or "clusters"
  std::string_view name;  // of the file, without .toml
  std::string_view text;
};

std::span<const CatalogueFile> catalogue_files();  // by kind and name

}  // namespace tessera
