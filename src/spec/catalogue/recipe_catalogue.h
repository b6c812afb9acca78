// Published recipes by name: a model, a cluster and a split as somebody has trained with them,
// where that is written down, and what came out. TOML files in catalogue/recipes, or a user's own.
// docs/recipes.md describes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/file_reader.h"

namespace tessera {

// What a source states of a run; what it does not state is 0.
struct PublishedResult {
  double step_s = 0;
  double mfu = 0;                         // a share: 0.41
  double tflops_per_device = 0;           // arithmetic of the model
  double hardware_tflops_per_device = 0;  // with what is computed again
  double tokens_per_s_per_device = 0;
  double device_hours_per_trillion = 0;  // tokens
  double memory_gib = 0;                 // of the fullest device
  [[nodiscard]] bool empty() const;
};

struct Recipe {
  std::string name;
  std::string title;                  // "Llama 3 405B, 8,192 tokens, 16,384 H100"
  std::string source;                 // paper and section of the split
  std::string cluster;                // as --cluster takes it
  std::string engine;                 // whose time comes nearest to that of the source; empty: ours
  std::vector<std::string> settings;  // "section.key=value", as --set takes them
  std::vector<std::string> notes;     // what is not published, or not the same here
  PublishedResult published;
  std::string published_source;
};

// Sorted by name.
std::vector<std::string_view> recipe_names();

// `name` is one of recipe_names(), or a file as in model_catalogue.h. Throws ConfigError as there.
Recipe find_recipe(const std::string& name, const FileReader& read = nullptr);

}  // namespace tessera
