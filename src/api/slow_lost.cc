#include "api/slow_lost.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// The numbers of "a=1,b=2"; all of `names` must be there, and nothing else.
std::map<std::string, double> numbers_of(std::string_view flag, std::string_view text,
                                         const std::vector<std::string>& names,
                                         std::string_view example) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(
        fmt::format("{} {}: {}; use {} {}", flag, in_quotes(text), why, flag, example));
  };
  std::map<std::string, double> numbers;
  for (const std::string_view piece : split(text, ',')) {
    const size_t equals = piece.find('=');
    if (equals == std::string_view::npos) refuse(fmt::format("{} has no '='", in_quotes(piece)));
    const std::string name(trim(piece.substr(0, equals)));
    const std::string_view digits = trim(piece.substr(equals + 1));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      refuse(fmt::format("there is no {}", in_quotes(name)));
    }
    const std::optional<double> value = whole_real(digits);
    // "nan" and "inf" are read as well.
    if (!value.has_value() || !(*value > -1e15 && *value < 1e15)) {
      refuse(fmt::format("{} is not a number", in_quotes(digits)));
    }
    if (!numbers.emplace(name, *value).second) refuse(fmt::format("{} is there twice", name));
  }
  for (const std::string& name : names) {
    if (!numbers.contains(name)) refuse(fmt::format("{} is missing", name));
  }
  return numbers;
}

int rank_in(std::string_view flag, double value) {
  const bool whole =
      value >= 0 && value <= 1e9 && value == static_cast<double>(static_cast<int>(value));
  require_config(whole, "{}: rank={} is no rank; use a whole number from 0", flag, value);
  return static_cast<int>(value);
}

}  // namespace

std::vector<SlowRank> parse_slow(const std::vector<std::string>& texts) {
  std::vector<SlowRank> slow;
  for (const std::string& text : texts) {
    const auto numbers = numbers_of("--slow", text, {"rank", "factor"}, "rank=3,factor=1.3");
    const double factor = numbers.at("factor");
    require_config(factor >= 0.01 && factor <= 1e6,
                   "--slow: factor={} is out of range; use 0.01 to 1e6 (1.3: 30 % slower)", factor);
    slow.push_back({rank_in("--slow", numbers.at("rank")), factor});
  }
  return slow;
}

std::optional<LostAt> parse_lost(const std::string& text) {
  if (text.empty()) return {};
  const auto numbers = numbers_of("--lost", text, {"rank", "at"}, "rank=2,at=0.5");
  const double at = numbers.at("at");
  require_config(at >= 0 && at <= 1,
                 "--lost: at={} is no part of a step; use 0 to 1 (0.5: half-way)", at);
  return LostAt{rank_in("--lost", numbers.at("rank")), at};
}

}  // namespace tessera
