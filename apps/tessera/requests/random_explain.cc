#include <fmt/format.h>

#include <array>

#include "cost/explain/topic.h"
#include "cost/hardware/catalogue.h"
#include "requests/random_request.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera::testing {
namespace {

constexpr std::array<std::string_view, 22> kNonsense = {
    "0",      "-1",      "",     "abc",    "nan",
    "inf",    "-inf",    "1e18", "1e19",   "1e400",
    "1e-400", "0x10",    "--",   "1,2,,3", "99999999999999999999",
    "7 7",    "%",       "GB",   "1GB/s",  "-0.0",
    "1e-20",  "\xc3\xa4"};

constexpr std::array<std::string_view, 12> kSchedules = {
    "naive", "gpipe",      "1f1b",      "interleaved",   "zb-h1", "zb-h2",
    "zb-v",  "dualpipe-v", "pipedream", "pipedream-2bw", "1f1",   "x.csv"};

std::string random_name(const Parameter& parameter, Dice& dice) {
  if (parameter.name == "schedule") return std::string(dice.pick(kSchedules));
  std::string name(dice.pick(parameter.name == "device" ? device_names() : model_names()));
  if (dice.one_in(8))
    name.erase(static_cast<size_t>(dice.below(static_cast<int64_t>(name.size()))), 1);
  return name;
}

std::string random_number(Dice& dice) {
  const int64_t mantissa = 1 + dice.below(9999);
  switch (dice.below(4)) {
    case 0:
      return fmt::format("{}", mantissa % 64 + 1);
    case 1:
      return fmt::format("{}", int64_t{1} << dice.below(40));
    case 2:
      return fmt::format("{}.{:02}", mantissa / 100, mantissa % 100);
    default:
      return fmt::format("{}e{}", mantissa, dice.below(30) - 12);
  }
}

std::string_view random_suffix(Unit unit, Dice& dice) {
  constexpr std::array<std::string_view, 4> kCounts = {"", "k", "B", "T"};
  constexpr std::array<std::string_view, 4> kBytes = {"", "GB", "MiB", "TB"};
  constexpr std::array<std::string_view, 3> kRates = {"GB/s", "Gb/s", ""};
  constexpr std::array<std::string_view, 3> kTimes = {"us", "ms", "s"};
  constexpr std::array<std::string_view, 3> kFlops = {"T", "TFLOP/s", "P"};
  switch (unit) {
    case Unit::kCount:
      return dice.pick(kCounts);
    case Unit::kBytes:
      return dice.pick(kBytes);
    case Unit::kBytesPerSecond:
      return dice.pick(kRates);
    case Unit::kSeconds:
      return dice.pick(kTimes);
    case Unit::kFlopsPerSecond:
      return dice.pick(kFlops);
    case Unit::kShare:
      return "%";
    default:
      return "";
  }
}

// A value for a flag of this kind: mostly one that it takes.
std::string random_value(const Parameter& parameter, Dice& dice) {
  using Kind = Parameter::Kind;
  if (dice.one_in(12)) return std::string(dice.pick(kNonsense));
  if (parameter.kind == Kind::kText) return random_name(parameter, dice);
  if (parameter.kind == Kind::kWhole) {
    return fmt::format("{}", dice.one_in(3) ? int64_t{1} << dice.below(24) : 1 + dice.below(64));
  }
  std::string text = random_number(dice);
  if (parameter.kind != Kind::kReals)
    return text + std::string(random_suffix(parameter.unit, dice));
  for (int64_t more = dice.below(4); more > 0; --more) text += "," + random_number(dice);
  return text;
}

}  // namespace

Request random_explain(Dice& dice) {
  const Topic& topic = dice.pick(topics());
  std::vector<std::string> words = {"explain", std::string(topic.name)};
  for (const Parameter& parameter : topic.parameters) {
    if (dice.one_in(2)) continue;
    // Together, so that a value may begin with a dash.
    words.push_back(fmt::format("--{}={}", parameter.name, random_value(parameter, dice)));
  }
  if (dice.one_in(2)) words.emplace_back("--json");
  if (dice.one_in(40)) words.emplace_back("--no-such-flag");
  return {words, {}};
}

}  // namespace tessera::testing
