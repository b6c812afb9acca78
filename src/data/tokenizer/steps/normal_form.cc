#include "data/tokenizer/steps/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/error.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr size_t kLongest = 32;  // characters of one decomposition; U+FDFA has 18

bool is_compatible(NormalForm form) {
  return form == NormalForm::kNfkc || form == NormalForm::kNfkd;
}
bool is_composed(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }

bool is_too_new(uint32_t code) { return (character_table()[code] & kNotNormalizedBit) != 0; }

uint8_t combining_class(uint32_t code) {
  if (code < 0x300 || is_too_new(code)) return 0;
  return static_cast<uint8_t>(
      utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class);
}

struct Decomposition {
  std::array<utf8proc_int32_t, kLongest> codes;
  size_t count = 0;
};

Decomposition decompose(uint32_t code, bool compatible) {
  Decomposition result;
  if (code < 0x80 || is_too_new(code)) {
    result.codes[0] = static_cast<utf8proc_int32_t>(code);
    result.count = 1;
    return result;
  }
  const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), result.codes.data(), kLongest,
                              static_cast<utf8proc_option_t>(options), nullptr);
  TESSERA_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kLongest),
                "the decomposition of U+{:04X} has {} characters", code, count);
  result.count = static_cast<size_t>(count);
  return result;
}

// The one character that two make together, or 0.
uint32_t composed(uint32_t first, uint32_t second) {
  if (is_too_new(first) || is_too_new(second)) return 0;
  std::array<utf8proc_int32_t, 3> pair = {static_cast<utf8proc_int32_t>(first),
                                          static_cast<utf8proc_int32_t>(second), 0};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  if (utf8proc_normalize_utf32(pair.data(), 2, options) != 1) return 0;
  const auto code = static_cast<uint32_t>(pair[0]);
  return is_too_new(code) ? 0 : code;
}

constexpr uint8_t kComposedBit = 1;  // may change in NFC
constexpr uint8_t kDecomposedBit = 2;
constexpr uint8_t kCompatibleBit = 4;

// Which characters a quick look cannot pass: those that decompose, that have a combining class, or
// that could be the end of a composition.
std::unique_ptr<uint8_t[]> make_quick_table() {
  auto table = std::make_unique<uint8_t[]>(kCodePoints);
  for (uint32_t code = 0x80; code < kCodePoints; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    if (combining_class(code) != 0) table[code] |= kComposedBit | kDecomposedBit | kCompatibleBit;
    const Decomposition canonical = decompose(code, false);
    const Decomposition compatible = decompose(code, true);
    const auto self = static_cast<utf8proc_int32_t>(code);
    if (compatible.count != 1 || compatible.codes[0] != self) table[code] |= kCompatibleBit;
    if (canonical.count == 1 && canonical.codes[0] == self) continue;
    table[code] |= kDecomposedBit;
    if (canonical.count > 1) {
      table[static_cast<uint32_t>(canonical.codes[canonical.count - 1])] |= kComposedBit;
    }
    // What composes again to itself is in NFC.
    uint32_t again = static_cast<uint32_t>(canonical.codes[0]);
    for (size_t i = 1; i < canonical.count && again != 0; ++i) {
      again = composed(again, static_cast<uint32_t>(canonical.codes[i]));
    }
    if (again != code) table[code] |= kComposedBit;
  }
  return table;
}

const uint8_t* quick_table() {
  static const std::unique_ptr<uint8_t[]> table = make_quick_table();
  return table.get();
}

struct Item {
  Change change;
  uint8_t combining = 0;
};

// All of the text decomposed, marks in canonical order.
std::vector<Item> decomposed(std::string_view text, bool compatible) {
  std::vector<Item> items;
  items.reserve(text.size());
  size_t marks = 0;  // where the marks at the end begin
  const auto sort_marks = [&] {
    std::stable_sort(items.begin() + static_cast<ptrdiff_t>(marks), items.end(),
                     [](const Item& a, const Item& b) { return a.combining < b.combining; });
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.bytes;
    const Decomposition parts = decompose(point.code, compatible);
    for (size_t i = 0; i < parts.count; ++i) {
      const auto code = static_cast<uint32_t>(parts.codes[i]);
      const uint8_t combining = combining_class(code);
      if (combining == 0) sort_marks();
      items.push_back({{code, i == 0 ? 0 : 1}, combining});
      if (combining == 0) marks = items.size();
    }
  }
  sort_marks();
  return items;
}

// Joins each starter with what follows it and is not blocked (canonical composition).
std::vector<Change> composed(const std::vector<Item>& items) {
  std::vector<Change> out;
  out.reserve(items.size());
  size_t starter = items.size();  // in `out`; items.size(): none yet
  int last_class = -1;            // of what was kept since the starter; -1: nothing was
  for (const Item& item : items) {
    const bool blocked = last_class >= static_cast<int>(item.combining);
    const uint32_t joined =
        starter == items.size() || blocked ? 0 : composed(out[starter].code, item.change.code);
    if (joined != 0) {
      out[starter] = {joined, out[starter].change + item.change.change - 1};
      continue;
    }
    if (item.combining == 0) {
      starter = out.size();
      last_class = -1;
    } else {
      last_class = item.combining;
    }
    out.push_back(item.change);
  }
  return out;
}

}  // namespace

bool may_change(NormalForm form, std::string_view text) {
  uint8_t bit = kComposedBit;
  if (form == NormalForm::kNfd) bit = kDecomposedBit;
  if (form == NormalForm::kNfkd) bit = kCompatibleBit | kDecomposedBit;
  // A compatible composition changes what is compatible, unless that is canonical and in NFC.
  if (form == NormalForm::kNfkc) bit = kComposedBit | kCompatibleBit;
  const uint8_t* table = nullptr;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    if (table == nullptr) table = quick_table();
    const CodePoint point = code_point_at(text, at);
    if ((table[point.code] & bit) != 0) return true;
    at += point.bytes;
  }
  return false;
}

std::vector<Change> normalized(NormalForm form, std::string_view text) {
  const std::vector<Item> items = decomposed(text, is_compatible(form));
  if (is_composed(form)) return composed(items);
  std::vector<Change> changes;
  changes.reserve(items.size());
  for (const Item& item : items) changes.push_back(item.change);
  return changes;
}

}  // namespace tessera
