#include "data/tokenizer/steps/charsmap.h"

#include "base/error.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// The largest in use has 0.3 MB; a check of this many bytes takes less than a second.
constexpr size_t kMostMapBytes = size_t{4} << 20;

uint32_t u32_at(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// The children of a node lie at its base, each at the base with its byte; the unit at the base
// itself is the value of the key that ends there. A value has bit 31, so it is nobody's child.
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
size_t base_of(size_t node, uint32_t unit) {
  return node ^ (size_t{unit >> 10} << ((unit & 0x200) >> 6));
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  require_config(bytes.size() <= kMostMapBytes, "the map has {} bytes, more than the limit of {}",
                 bytes.size(), kMostMapBytes);
  require_config(bytes.size() >= 4, "the map has {} bytes, less than the 4 of its size",
                 bytes.size());
  const size_t trie_bytes = u32_at(bytes, 0);
  require_config(trie_bytes >= 4 && trie_bytes % 4 == 0 && trie_bytes <= bytes.size() - 4,
                 "the trie should have {} bytes, but {} follow its size", trie_bytes,
                 bytes.size() - 4);
  units_.reserve(trie_bytes / 4);
  for (size_t at = 4; at < 4 + trie_bytes; at += 4) units_.push_back(u32_at(bytes, at));
  replacements_ = bytes.substr(4 + trie_bytes);
  const size_t valid = valid_prefix(replacements_);
  require_config(valid == replacements_.size(), "byte {} of the replacements is not UTF-8", valid);
  check();
}

// Looks at all that find() can come to, level by level.
void Charsmap::check() const {
  std::vector<bool> seen(units_.size());
  std::vector<size_t> level = {0};
  for (size_t depth = 0; depth <= kMostBytes && !level.empty(); ++depth) {
    std::vector<size_t> next;
    for (const size_t node : level) {
      const size_t base = base_of(node, units_[node]);
      require_config(base < units_.size(), "unit {} of the trie points at unit {} of {}", node,
                     base, units_.size());
      if (depth > 0 && has_value(units_[node])) check_value(node, base);
      for (size_t byte = 1; byte < 256; ++byte) {
        const size_t child = base ^ byte;
        if (child >= units_.size() || label_of(units_[child]) != byte || seen[child]) continue;
        seen[child] = true;
        next.push_back(child);
      }
    }
    level = std::move(next);
  }
}

void Charsmap::check_value(size_t node, size_t base) const {
  const size_t at = value_of(units_[base]);
  require_config(at <= replacements_.size(),
                 "unit {} of the trie names byte {} of {} bytes of replacements", node, at,
                 replacements_.size());
  require_config(at == replacements_.size() || !is_continuation(replacements_[at]),
                 "unit {} of the trie names byte {} of the replacements, inside a character", node,
                 at);
}

std::optional<std::string_view> Charsmap::find(std::string_view part) const {
  TESSERA_CHECK(part.size() <= kMostBytes, "a part of {} bytes", part.size());
  size_t base = base_of(0, units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    const size_t node = base ^ byte;
    // NUL ends every search.
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) return std::nullopt;
    base = base_of(node, units_[node]);
    if (!has_value(units_[node])) continue;
    const std::string_view rest = std::string_view(replacements_).substr(value_of(units_[base]));
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

}  // namespace tessera
