#include "data/tokenizer/pattern/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "data/tokenizer/pattern/regex_translation.h"
#include "data/tokenizer/unicode/unicode.h"
#include "data/tokenizer/unicode/unicode_tables.h"

namespace tessera {
namespace {

// For one match. The slowest pattern in use needs a few steps for a character.
constexpr uint32_t kMostSteps = 50'000'000;
constexpr uint32_t kMostHeapKib = 64 * 1024;
constexpr size_t kLongestPattern = 16 * 1024;

struct CodeDeleter {
  void operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const noexcept {
    pcre2_match_context_free(context);
  }
};
struct CompileContextDeleter {
  void operator()(pcre2_compile_context* context) const noexcept {
    pcre2_compile_context_free(context);
  }
};
using Code = std::unique_ptr<pcre2_code, CodeDeleter>;
using MatchData = std::unique_ptr<pcre2_match_data, MatchDeleter>;
using MatchContext = std::unique_ptr<pcre2_match_context, ContextDeleter>;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

Code compile(const std::string& shown, const std::string& pattern) {
  const std::unique_ptr<pcre2_compile_context, CompileContextDeleter> context(
      pcre2_compile_context_create(nullptr));
  TESSERA_CHECK(context != nullptr, "no memory for a pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE at = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                          &at, context.get()));
  require_config(code != nullptr, "pattern {}: {}", in_quotes(shown), message_of(error));
  // Where it cannot be, patterns are interpreted: the same matches, slower.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

// Characters of `ranges` that the property of this PCRE2 does not have, as ranges in a class.
std::string missing(const std::string& without_property, std::span<const CharacterRange> ranges) {
  std::string all;
  for (const CharacterRange range : ranges) {
    for (uint32_t code = range.first; code <= range.last; ++code) append_utf8(code, all);
  }
  const Code code = compile(without_property, without_property);
  const MatchData data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  std::string list;
  uint32_t first = 0;
  uint32_t last = 0;
  const auto finish = [&] {
    if (first != 0) list += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", first, last);
  };
  size_t at = 0;
  while (pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(), at,
                     PCRE2_NO_UTF_CHECK, data.get(), nullptr) > 0) {
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
    const uint32_t point = code_point_at(all, found[0]).code;
    if (first == 0 || point != last + 1) {
      finish();
      first = point;
    }
    last = point;
    at = found[1];
  }
  finish();
  return list;
}

NewerCharacters make_newer() {
  std::vector<CharacterRange> words;
  // Joiners are of a word beside an added token, but not in a pattern.
  for (const CharacterRange range : word_ranges()) {
    if (range.first != 0x200C) words.push_back(range);
  }
  return {missing("\\P{L}", letter_ranges()), missing("\\P{N}", number_ranges()),
          missing("\\P{Nd}", decimal_ranges()),
          missing(fmt::format("[^{}{}]", kWordClass, kWordAlone), words)};
}

const NewerCharacters& newer_characters() {
  static const NewerCharacters characters = make_newer();
  return characters;
}

}  // namespace

struct Regex::Compiled {
  Code code;
  MatchContext limits;
};

Regex::Regex(std::string pattern) : pattern_(std::move(pattern)) {
  require_config(pattern_.size() <= kLongestPattern, "pattern {}: {} bytes, more than {}",
                 in_quotes(pattern_), pattern_.size(), kLongestPattern);
  require_config(valid_prefix(pattern_) == pattern_.size(), "pattern {}: it is not UTF-8",
                 in_quotes(pattern_));
  auto compiled = std::make_unique<Compiled>();
  compiled->code = compile(pattern_, pcre2_pattern(pattern_, newer_characters()));
  compiled->limits.reset(pcre2_match_context_create(nullptr));
  TESSERA_CHECK(compiled->limits != nullptr, "no memory for a pattern");
  pcre2_set_match_limit(compiled->limits.get(), kMostSteps);
  pcre2_set_heap_limit(compiled->limits.get(), kMostHeapKib);
  compiled_ = std::move(compiled);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find(std::string_view text, std::vector<Part>& parts) const {
  parts.clear();
  const MatchData data(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  TESSERA_CHECK(data != nullptr, "no memory for a match");
  const auto push = [&](size_t begin, size_t end, bool is_match) {
    parts.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), is_match});
  };
  const auto match = [&](size_t at, uint32_t options) {
    return pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(), at, PCRE2_NO_UTF_CHECK | options, data.get(),
                       compiled_->limits.get());
  };
  size_t at = 0;
  size_t covered = 0;
  bool any = false;
  while (at <= text.size()) {
    int found = match(at, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(at, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    require(found > 0, "pattern {}: at byte {} of the text: {}", in_quotes(pattern_), at,
            message_of(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (range[0] == range[1] && any && range[1] == covered) {
      // An empty match right after a match is none.
      at += at < text.size() ? code_point_at(text, at).bytes : 1;
      continue;
    }
    if (range[0] > covered) push(covered, range[0], false);
    push(range[0], range[1], true);
    at = covered = range[1];
    any = true;
  }
  if (covered < text.size()) push(covered, text.size(), false);
}

}  // namespace tessera
