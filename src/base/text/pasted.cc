#include "base/text/pasted.h"

#include <fmt/format.h>

#include "base/text/printable.h"

namespace tessera {
namespace {

struct Span {
  uint32_t first, last;
  PastedKind kind;
  std::string_view name;
  std::string_view plain;
};

constexpr Span kPasted[] = {
    {0x00a0, 0x00a0, PastedKind::kSpace, "a space that does not break", " "},
    {0x00ab, 0x00ab, PastedKind::kQuote, "a typographic quote", "\""},
    {0x00bb, 0x00bb, PastedKind::kQuote, "a typographic quote", "\""},
    {0x2000, 0x200a, PastedKind::kSpace, "a typographic space", " "},
    {0x200b, 0x200d, PastedKind::kNothing, "a character without width", ""},
    {0x2010, 0x2015, PastedKind::kDash, "a long dash", "-"},
    {0x2018, 0x201b, PastedKind::kQuote, "a typographic quote", "'"},
    {0x201c, 0x201f, PastedKind::kQuote, "a typographic quote", "\""},
    {0x202f, 0x202f, PastedKind::kSpace, "a space that does not break", " "},
    {0x2060, 0x2060, PastedKind::kNothing, "a character without width", ""},
    {0x2212, 0x2212, PastedKind::kDash, "a minus sign", "-"},
    {0x3000, 0x3000, PastedKind::kSpace, "a wide space", " "},
    {0xfe58, 0xfe58, PastedKind::kDash, "a long dash", "-"},
    {0xfe63, 0xfe63, PastedKind::kDash, "a small hyphen", "-"},
    {0xfeff, 0xfeff, PastedKind::kNothing, "a character without width", ""},
    {0xff0d, 0xff0d, PastedKind::kDash, "a wide hyphen", "-"},
};

const Span* span_of(uint32_t code) {
  for (const Span& span : kPasted) {
    if (code >= span.first && code <= span.last) return &span;
  }
  return nullptr;
}

}  // namespace

std::optional<PastedCharacter> find_pasted(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    const Span* span = character.valid ? span_of(character.code) : nullptr;
    if (span != nullptr) return PastedCharacter{span->kind, character.code, at, character.bytes};
    at += character.bytes;
  }
  return std::nullopt;
}

std::string describe(const PastedCharacter& character) {
  const Span* span = span_of(character.code);
  return fmt::format("{} (U+{:04X})", span == nullptr ? "a character" : span->name, character.code);
}

std::string typed_plainly(std::string_view text) {
  std::string plain;
  while (const std::optional<PastedCharacter> found = find_pasted(text)) {
    plain += text.substr(0, found->at);
    plain += span_of(found->code)->plain;
    text.remove_prefix(found->at + found->bytes);
  }
  return plain + std::string(text);
}

}  // namespace tessera
