// Patterns of PCRE2, compiled, with owners for what it allocates.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>

namespace tessera {

struct Pcre2CodeDeleter {
  void operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }
};
struct Pcre2MatchDeleter {
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
};
using Pcre2Code = std::unique_ptr<pcre2_code, Pcre2CodeDeleter>;
using Pcre2MatchData = std::unique_ptr<pcre2_match_data, Pcre2MatchDeleter>;

// `shown` is what the user wrote. Throws ConfigError.
Pcre2Code compile_pattern(const std::string& shown, const std::string& pattern);

std::string pcre2_message(int error);

}  // namespace tessera
