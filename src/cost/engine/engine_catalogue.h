// Engines by name: TOML files under catalogue/engines, compiled in, or a user's own with the same
// keys. docs/engines.md describes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost/engine/engine.h"
#include "spec/file_reader.h"

namespace tessera {

// The engine that runs Tessera's own Programs: what is priced where nobody names another.
inline constexpr std::string_view kOwnEngine = "tessera";

std::vector<std::string_view> engine_names();

// `name` is an entry, or a path that ends in .toml. Unknown names throw ConfigError with the
// nearest known one. What an engine takes over from another is marked as borrowed.
Engine find_engine(const std::string& name, const FileReader& read = nullptr);

// From TOML text; `file_name` is where errors point.
Engine parse_engine(std::string_view text, const std::string& file_name,
                    const FileReader& read = nullptr);

}  // namespace tessera
