// One "section.key=value" that a command line or a request says of a run, and how it says it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct Entry;  // spec/entry.h

struct Setting {
  std::string text;  // "parallel.tp=4"
  std::string at;    // "--tp 4": where messages point
};

Setting setting_of_set(const std::string& text);  // of --set

// The value is TOML, or a bare word taken as a string. ConfigError for text without a key or "=",
// and for an unknown section.
std::vector<Entry> entries_of(const Setting& setting);

// The keys that a mesh string gives a value, "parallel.tp"; axes that it does not name are not
// among them.
std::vector<std::string> keys_of_mesh(std::string_view mesh);

bool is_mesh_axis(std::string_view key);  // "parallel.tp"

// ConfigError where two ways of the command line (--set, --mesh, a flag) say different values of
// one key: neither can be what was meant for sure. A mesh string says 1 of the axes that it does
// not name. The same way twice is no conflict: the last one counts.
void refuse_conflicts(std::span<const Setting> settings, std::string_view mesh);

}  // namespace tessera
