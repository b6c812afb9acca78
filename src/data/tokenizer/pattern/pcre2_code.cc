#include "data/tokenizer/pattern/pcre2_code.h"

#include <array>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

struct CompileContextDeleter {
  void operator()(pcre2_compile_context* context) const noexcept {
    pcre2_compile_context_free(context);
  }
};

}  // namespace

Pcre2Code compile_pattern(const std::string& shown, const std::string& pattern) {
  const std::unique_ptr<pcre2_compile_context, CompileContextDeleter> context(
      pcre2_compile_context_create(nullptr));
  TESSERA_CHECK(context != nullptr, "no memory for a pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE at = 0;
  Pcre2Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                               PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                               &error, &at, context.get()));
  require_config(code != nullptr, "pattern {}: {}", in_quotes(shown), pcre2_message(error));
  // Where it cannot be, patterns are interpreted: the same matches, slower.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

std::string pcre2_message(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace tessera
