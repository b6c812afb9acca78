#include "requests/random_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text/text.h"
#include "cost/hardware/catalogue.h"
#include "cost/hardware/device_keys.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/keys.h"

namespace tessera::testing {
namespace {

// One roll of the dice a call: compilers evaluate arguments in different orders.

constexpr std::array<std::string_view, 34> kNonsense = {"0",
                                                        "-1",
                                                        "1",
                                                        "3",
                                                        "7",
                                                        "1000000000000000000",
                                                        "9223372036854775807",
                                                        "-9223372036854775808",
                                                        "99999999999999999999",
                                                        "0x7fffffffffffffff",
                                                        "1e18",
                                                        "1e300",
                                                        "1.7976931348623157e308",
                                                        "1e400",
                                                        "5e-324",
                                                        "-0.0",
                                                        "nan",
                                                        "inf",
                                                        "-inf",
                                                        "1.5",
                                                        "1e-12",
                                                        "\"\"",
                                                        "\"x\"",
                                                        "\"nan\"",
                                                        "\"\\u0000\"",
                                                        "\"\xc3\xa4\"",
                                                        "true",
                                                        "[]",
                                                        "[1, 2, 3]",
                                                        "[[], [[]]]",
                                                        "{}",
                                                        "{ a = 1 }",
                                                        "1979-05-27T07:32:00Z",
                                                        "\"../../etc/passwd\""};

size_t place_in(const std::string& text, Dice& dice) {
  return static_cast<size_t>(dice.below(static_cast<int64_t>(text.size()) + 1));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) lines.emplace_back(line);
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string repeated(std::string_view piece, int64_t times) {
  std::string text;
  for (int64_t i = 0; i < times; ++i) text += piece;
  return text;
}

std::string deep_nesting(Dice& dice) {
  const int64_t depth = int64_t{1} << dice.below(15);
  switch (dice.below(4)) {
    case 0:
      return fmt::format("x = {}{}\n", repeated("[", depth), repeated("]", depth));
    case 1:
      return fmt::format("x = {}\n", repeated("{ a = ", depth));
    case 2:
      return fmt::format("a{} = 1\n", repeated(".a", depth));
    default:
      return fmt::format("[a{}]\n", repeated(".a", depth));
  }
}

// The value of one "key = value" or "key": value.
void spoil_value(std::string& text, Dice& dice) {
  std::vector<size_t> places;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '=' || text[i] == ':') places.push_back(i + 1);
  }
  if (places.empty()) return;
  const size_t from = dice.pick(places);
  const size_t to = std::min(text.find_first_of(",}\n", from), text.size());
  text.replace(from, to - from, " " + nonsense_toml(dice));
}

void spoil_lines(std::string& text, Dice& dice) {
  std::vector<std::string> lines = lines_of(text);
  const size_t a = static_cast<size_t>(dice.below(static_cast<int64_t>(lines.size())));
  const size_t b = static_cast<size_t>(dice.below(static_cast<int64_t>(lines.size())));
  switch (dice.below(3)) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(a));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(b), lines[a]);
      break;
    default:
      std::swap(lines[a], lines[b]);
  }
  text = joined(lines);
}

void spoil_bytes(std::string& text, Dice& dice) {
  constexpr std::array<std::string_view, 8> kBytes = {
      "\xff\xfe", "\xc3", "\xef\xbb\xbf", "\r", "\xed\xa0\x80", "\xf4\x90\x80\x80",
      "\x1b[31m", "\""};
  const size_t at = place_in(text, dice);
  if (dice.one_in(3)) {
    text.insert(at, 1, '\0');
  } else {
    text.insert(at, dice.pick(kBytes));
  }
}

// "layers = 2", with a value that suits the type of the key and its size.
std::string key_line(const Key& key, RunSpec& scratch, Dice& dice) {
  if (dice.one_in(10)) return fmt::format("{} = {}\n", key.name, nonsense_toml(dice));
  if (!key.choices.empty()) {
    return fmt::format("{} = \"{}\"\n", key.name, dice.pick(key.choices));
  }
  const Field field = key.field(scratch);
  if (std::holds_alternative<bool*>(field)) {
    return fmt::format("{} = {}\n", key.name, dice.one_in(2));
  }
  if (std::holds_alternative<double*>(field)) {
    return fmt::format("{} = {}e-2\n", key.name, dice.below(200));
  }
  if (std::holds_alternative<int64_t*>(field) || std::holds_alternative<uint64_t*>(field)) {
    const int64_t value = dice.one_in(20) ? int64_t{1} << dice.below(40) : 1 << dice.below(4);
    return fmt::format("{} = {}\n", key.name, value);
  }
  if (std::holds_alternative<std::vector<int64_t>*>(field)) {
    const int64_t first = 1 + dice.below(3);
    return fmt::format("{} = [{}, {}]\n", key.name, first, 1 + dice.below(3));
  }
  return "";  // texts without a list of choices: names, which other requests give
}

// Some keys of a section, each at most once.
std::string section_text(std::string_view section, int64_t one_in, Dice& dice) {
  RunSpec scratch;
  std::string text = fmt::format("\n[{}]\n", section);
  for (const Key& key : run_keys()) {
    if (key.section != section || key.required || !dice.one_in(one_in)) continue;
    text += key_line(key, scratch, dice);
  }
  return text;
}

std::string small_model(Dice& dice) {
  const int64_t heads = int64_t{1} << dice.below(4);
  const int64_t layers = 1 + dice.below(6);
  const int64_t hidden = heads * 4 * (1 + dice.below(4));
  const int64_t ffn = 8 * (1 + dice.below(12));
  const int64_t vocab = 16 * (1 + dice.below(20));
  return fmt::format("[model]\nlayers = {}\nhidden = {}\nffn = {}\nheads = {}\nvocab = {}\n",
                     layers, hidden, ffn, heads, vocab);
}

std::string constant_text(double value, Dice& dice) {
  if (dice.one_in(12)) return nonsense_toml(dice);
  if (dice.one_in(2)) return fmt::format("{}", value);
  constexpr std::array<std::string_view, 5> kProvenances = {"vendor", "measured", "fitted",
                                                            "default", "rumour"};
  const size_t last = kProvenances.size() - (dice.one_in(8) ? 0 : 1);
  return fmt::format("[{}, \"{}\", \"somewhere\"]", value,
                     kProvenances[static_cast<size_t>(dice.below(static_cast<int64_t>(last)))]);
}

// Between a hundredth and a hundred times `usual`.
double around(double usual, Dice& dice) {
  constexpr std::array<double, 7> kFactors = {0.01, 0.1, 0.5, 1, 2, 10, 100};
  return usual * dice.pick(kFactors);
}

std::string device_table(Dice& dice) {
  std::string text = "\n[device]\n";
  if (!dice.one_in(6)) text += fmt::format("extends = \"{}\"\n", dice.pick(device_names()));
  const DeviceSpec usual = find_device("h100", nullptr);
  for (const DeviceKey& key : kDeviceKeys) {
    if (!dice.one_in(4)) continue;
    const double value = (usual.*key.field).value;
    text += fmt::format("{} = {}\n", key.name, constant_text(around(value, dice), dice));
  }
  if (dice.one_in(4)) {
    text += fmt::format("[device.peak_flops]\nf16 = {}\n", constant_text(around(1e14, dice), dice));
  }
  if (dice.one_in(4)) {
    text += fmt::format("[device.product_efficiency]\nf16 = {}\n", constant_text(0.7, dice));
  }
  return text;
}

std::string level_table(int64_t devices, Dice& dice) {
  constexpr std::array<std::string_view, 4> kShapes = {"switch", "torus", "shared", "star"};
  std::string text = fmt::format("\n[[levels]]\nname = \"link\"\ndevices = {}\n", devices);
  if (dice.one_in(3)) text += fmt::format("shape = \"{}\"\n", dice.pick(kShapes));
  text += fmt::format("bandwidth = {}\n", constant_text(around(1e10, dice), dice));
  text += fmt::format("latency_s = {}\n", constant_text(around(1e-5, dice), dice));
  if (dice.one_in(3)) text += fmt::format("efficiency = {}\n", constant_text(0.8, dice));
  if (dice.one_in(4)) text += fmt::format("oversubscription = {}\n", constant_text(4, dice));
  if (dice.one_in(4)) text += "in_network_sums = true\n";
  return text;
}

// What calibrate writes, of one kernel and one collective.
std::string measured_table(Dice& dice) {
  const auto mostly = [&](const char* usual) {
    return dice.one_in(9) ? nonsense_toml(dice) : std::string(usual);
  };
  std::string text = "\n[measured]\nsource = \"here\"\n";
  text += fmt::format("cores = {}\n", mostly("2"));
  text += fmt::format("dispatch_s = {}\n", mostly("1e-6"));
  text += fmt::format("[measured.sharing]\nthreads = [{}]\n", mostly("1"));
  text += fmt::format("products = [{}]\n", mostly("1.0"));
  text += "[[measured.kernels]]\nop = \"matmul\"\ntype = \"f32\"\npoints = 3\nerror_pct = 2.0\n";
  text += fmt::format("threads = {}\n", mostly("1"));
  text += fmt::format("seconds = {{ call = {} }}\n", mostly("1e-6"));
  text += "[[measured.collectives]]\nop = \"all_reduce\"\nranks_are = \"threads\"\npoints = 3\n";
  text += fmt::format("error_pct = {}\n", mostly("2.0"));
  text += fmt::format("ranks = {}\n", mostly("2"));
  return text + fmt::format("seconds = {{ call = {} }}\n", mostly("1e-5"));
}

}  // namespace

std::string nonsense_toml(Dice& dice) { return std::string(dice.pick(kNonsense)); }

std::string spoiled(std::string text, Dice& dice) {
  for (int64_t more = 1 + dice.below(3); more > 0; --more) {
    switch (dice.below(8)) {
      case 0:
        text.resize(place_in(text, dice));
        break;
      case 1:
      case 2:
        spoil_lines(text, dice);
        break;
      case 3:
        spoil_bytes(text, dice);
        break;
      case 4:
        text = dice.one_in(2) ? deep_nesting(dice) + text : text + deep_nesting(dice);
        break;
      case 5:
        if (!text.empty()) text.erase(place_in(text, dice) % text.size(), 1);
        break;
      default:
        spoil_value(text, dice);
    }
  }
  return text;
}

std::string random_run_file(Dice& dice) {
  std::string text = small_model(dice);
  if (dice.one_in(3)) text += section_text("model", 8, dice).substr(std::size("\n[model]\n") - 1);
  if (dice.one_in(20)) text += section_text("model.rope_scaling", 2, dice);
  if (dice.one_in(8)) text += section_text("cluster", 2, dice);
  if (dice.one_in(2)) text += section_text("parallel", 8, dice);
  text += "\n[train]\nseq_len = 16\n";
  if (dice.one_in(3)) text += section_text("optimizer", 4, dice);
  return text;
}

std::string random_model_file(Dice& dice) {
  constexpr std::array<std::string_view, 4> kOthers = {"model.toml", "other.toml", "nowhere.toml",
                                                       "lama-3-8b"};
  std::string text;
  const bool extends = dice.one_in(3);
  if (extends) {
    text += fmt::format("extends = \"{}\"\n",
                        dice.one_in(2) ? dice.pick(kOthers) : dice.pick(model_names()));
  }
  if (dice.one_in(4)) text += "source = \"a paper\"\n";
  if (dice.one_in(8)) text += fmt::format("parameters = {}\n", nonsense_toml(dice));
  text += extends ? "[model]\n" : small_model(dice);
  return text + section_text("model", 8, dice).substr(std::size("\n[model]\n") - 1);
}

std::string random_cluster_file(Dice& dice) {
  constexpr std::array<std::string_view, 4> kOthers = {"cluster.toml", "other.toml", "nowhere.toml",
                                                       "h10"};
  std::string text;
  if (dice.one_in(3)) {
    text += fmt::format("extends = \"{}\"\n",
                        dice.one_in(2) ? dice.pick(kOthers) : dice.pick(cluster_names()));
  }
  text +=
      fmt::format("devices = {}\n", dice.one_in(12) ? nonsense_toml(dice)
                                                    : std::to_string(int64_t{1} << dice.below(5)));
  if (dice.one_in(5)) text += fmt::format("usd_per_device_hour = {}\n", constant_text(2, dice));
  if (dice.one_in(8)) text += fmt::format("storage_bandwidth = {}\n", constant_text(1e9, dice));
  text += dice.one_in(2) ? fmt::format("device = \"{}\"\n", dice.pick(device_names()))
                         : device_table(dice);
  if (!dice.one_in(4)) text += level_table(dice.one_in(10) ? dice.below(9) : 4, dice);
  if (dice.one_in(2)) text += level_table(0, dice);
  if (dice.one_in(8)) text += measured_table(dice);
  return text;
}

}  // namespace tessera::testing
