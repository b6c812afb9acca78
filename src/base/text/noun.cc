#include "base/text/noun.h"

#include <fmt/format.h>

namespace tessera {

std::string with_noun(std::string_view number, std::string_view what) {
  if (number == "1") return fmt::format("{} {}", number, what);
  const auto ends = [&](std::string_view ending) { return what.ends_with(ending); };
  if (ends("y") && !ends("ay") && !ends("ey") && !ends("oy")) {
    return fmt::format("{} {}ies", number, what.substr(0, what.size() - 1));
  }
  return fmt::format("{} {}{}", number, what, ends("ch") || ends("ss") || ends("x") ? "es" : "s");
}

}  // namespace tessera
