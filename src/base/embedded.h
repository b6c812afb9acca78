// Text files that are compiled into the program (cmake/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tessera {

struct EmbeddedFile {
  std::string_view name;  // without folder and .toml
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_models();     // catalogue/models
std::span<const EmbeddedFile> embedded_devices();    // catalogue/devices
std::span<const EmbeddedFile> embedded_clusters();   // catalogue/clusters
std::span<const EmbeddedFile> embedded_engines();    // catalogue/engines
std::span<const EmbeddedFile> embedded_recipes();    // catalogue/recipes
std::span<const EmbeddedFile> embedded_published();  // catalogue/published

}  // namespace tessera
