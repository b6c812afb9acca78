// Regular expressions of tokenizer.json are Oniguruma's (Ruby's syntax); ours run on PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// The same pattern for PCRE2 with UTF, UCP, MULTILINE and newline LF. Where both would differ it is
// spelled out: classes (regex_class.h), \b, \v, \u, {,n}. Throws ConfigError for
// syntax whose meaning differs and that has no such form, naming it.
std::string pcre2_pattern(std::string_view pattern);

}  // namespace tessera
