#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "spec/foreign_names.h"

namespace tessera {
namespace {

// "--svg" of "-s,--svg".
std::string long_name(const std::string& name) { return name.substr(name.rfind(',') + 1); }

void require_given(const std::string& name, const std::string& text) {
  require_config(!name.starts_with('-') || !text.empty(),
                 "{} is '': give it a value, or leave it out (is a variable of the shell unset?)",
                 long_name(name));
}

CLI::Option* add_value(CLI::App& app, const std::string& name, const std::string& kind,
                       const std::string& description,
                       std::function<void(const std::string&)> read) {
  CLI::callback_t callback = [name, read = std::move(read)](const CLI::results_t& results) {
    require_given(name, results.back());
    read(results.back());
    return true;
  };
  // Without extra arguments CLI11 takes "[a, b]" as it is instead of splitting it.
  return app.add_option(name, std::move(callback), description)
      ->type_name(kind)
      ->take_last()
      ->allow_extra_args(false);
}

// "; did you mean 'cuda'?", for "gpu" and "cudaa".
std::string word_meant(const std::vector<std::string>& words, const std::string& text) {
  const std::string_view here = value_called(text);
  const bool known = std::find(words.begin(), words.end(), here) != words.end();
  const std::vector<std::string_view> names(words.begin(), words.end());
  const std::string meant = known ? std::string(here) : nearest_name(text, names);
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

int64_t parse_whole(const std::string& name, const std::string& text, int64_t least,
                    Thousand k = Thousand::kDecimal) {
  const std::optional<int64_t> value = parse_count(text, k);
  const bool ok = value.has_value() && *value >= least;
  require_config(ok, "{} is '{}': expected a whole number of at least {}", name, text, least);
  return *value;
}

// "; write 30", of "30d" and "30 days", "90 %" and "$2": flags say in their help what they count
// in.
std::string without_unit(std::string_view text) {
  const bool dollars = text.starts_with('$');
  if (dollars) text.remove_prefix(1);
  const std::optional<ParsedReal> number = parse_real(text);
  if (!number.has_value() || !(number->value > 0 && number->value < 1e15)) return "";
  const std::string_view unit = trim(text.substr(number->length));
  if (unit == "%") return fmt::format("; write {:g}", number->value / 100);
  const bool is_unit = std::all_of(unit.begin(), unit.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  return is_unit && (dollars || !unit.empty())
             ? fmt::format("; without a unit: {:g}", number->value)
             : "";
}

// What a flag that is a time counts in, by its name or help; 0: it is no time, or does not say.
double seconds_counted_in(const std::string& name, const std::string& description) {
  for (const std::string& text : {name, description}) {
    if (text.find("minutes") != std::string::npos) return 60;
    if (text.find("seconds") != std::string::npos) return 1;
    if (text.find("days") != std::string::npos) return 86400;
  }
  return 0;
}

// "; without a unit: 120", of "2h" for a flag that counts minutes.
std::string as_plain_number(const std::string& name, const std::string& text,
                            const std::string& description) {
  const double unit = seconds_counted_in(name, description);
  if (unit == 0 || without_unit(text).empty()) return without_unit(text);
  try {
    return fmt::format("; without a unit: {:g}", parse_quantity(Unit::kSeconds, text, name) / unit);
  } catch (const ConfigError&) {
    return "";
  }
}

double parse_number(const std::string& name, const std::string& text, double least,
                    const std::string& description) {
  const std::optional<double> value = whole_real(text);
  const bool ok = value.has_value() && *value >= least;
  require_config(ok, "{} is '{}': expected a number of at least {}{}", name, text, least,
                 as_plain_number(name, text, description));
  return *value;
}

}  // namespace

CLI::Option* add_text(CLI::App& app, const std::string& name, std::string& target,
                      const std::string& kind, const std::string& description) {
  return add_value(app, name, kind, description,
                   [&target](const std::string& text) { target = text; });
}

CLI::Option* add_checked_text(CLI::App& app, const std::string& name, std::string& target,
                              const std::string& kind, const std::string& description,
                              std::function<void(const std::string&)> check) {
  return add_value(app, name, kind, description,
                   [&target, check = std::move(check)](const std::string& text) {
                     check(text);
                     target = text;
                   });
}

CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& target,
                      const std::string& kind, const std::string& description) {
  CLI::callback_t callback = [name, &target](const CLI::results_t& results) {
    for (const std::string& text : results) require_given(name, text);
    target = results;
    return true;
  };
  constexpr int kAnyNumber = 1 << 20;
  return app.add_option(name, std::move(callback), description)
      ->type_name(kind)
      ->expected(1, kAnyNumber)
      ->take_all()
      ->allow_extra_args(name.front() != '-');
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& target,
                        const std::string& choices, const std::string& description) {
  return add_value(app, name, choices, description, [=, &target](const std::string& text) {
    const std::vector<std::string> words = split_choices(choices);
    const std::string small = lower_case(text);
    const auto found = std::find_if(words.begin(), words.end(), [&](const std::string& word) {
      return lower_case(word) == small;
    });
    require_config(found != words.end(), "{} is '{}': use one of {}{}", name, text,
                   fmt::join(words, ", "), found == words.end() ? word_meant(words, text) : "");
    target = *found;
  });
}

CLI::Option* add_whole(CLI::App& app, const std::string& name, int64_t& target, int64_t least,
                       const std::string& description) {
  return add_value(app, name, "N", description, [=, &target](const std::string& text) {
    target = parse_whole(name, text, least);
  });
}

CLI::Option* add_length(CLI::App& app, const std::string& name, int64_t& target,
                        const std::string& description) {
  return add_value(app, name, "N", description, [=, &target](const std::string& text) {
    target = parse_whole(name, text, 1, Thousand::kBinary);
  });
}

CLI::Option* add_batch(CLI::App& app, const std::string& name, int64_t& sequences, int64_t& tokens,
                       const std::string& description) {
  return add_value(app, name, "N", description, [=, &sequences, &tokens](const std::string& text) {
    const std::optional<int64_t> said = parse_tokens(text);
    tokens = said.value_or(0);
    sequences = said.has_value() ? 0 : parse_whole(name, text, 1);
  });
}

CLI::Option* add_count_text(CLI::App& app, const std::string& name, std::string& target,
                            const std::string& description) {
  return add_value(app, name, "N", description,
                   [=, &target](const std::string& text) { target = text; });
}

CLI::Option* add_count(CLI::App& app, const std::string& name, int64_t& target,
                       const std::string& description) {
  constexpr double kMost = 9e18;  // an int64_t holds it
  return add_value(app, name, "N", description, [=, &target](const std::string& text) {
    const double value = parse_quantity(Unit::kCount, text, name);
    require_config(value >= 1 && value <= kMost && value == std::floor(value),
                   "{} is '{}': expected a whole number from 1 to 9e18, such as 15T", name, text);
    target = static_cast<int64_t>(value);
  });
}

CLI::Option* add_bytes(CLI::App& app, const std::string& name, int64_t& target, int64_t most,
                       const std::string& description) {
  return add_value(app, name, "N", description, [=, &target](const std::string& text) {
    std::optional<int64_t> bytes = parse_count(text);
    if (!bytes.has_value()) bytes = whole_number(parse_quantity(Unit::kBytes, text, name));
    require_config(bytes.has_value() && *bytes >= 1 && *bytes <= most,
                   "{} is '{}': expected bytes, from 1 to {}, such as 4MB", name, text, most);
    target = *bytes;
  });
}

CLI::Option* add_real(CLI::App& app, const std::string& name, double& target, double least,
                      const std::string& description) {
  return add_value(app, name, "X", description, [=, &target](const std::string& text) {
    target = parse_number(name, text, least, description);
    require_config(std::isfinite(target), "{} is '{}': expected a finite number", name, text);
  });
}

CLI::Option* add_switch(CLI::App& app, const std::string& name, bool& target,
                        const std::string& description) {
  return app.add_flag(name, target, description);
}

void must_be_given(CLI::Option* option) { option->required(); }

void hide(CLI::Option* option) { option->group(""); }

std::vector<std::string> split_choices(std::string_view choices) {
  std::vector<std::string> words;
  while (!choices.empty()) {
    const size_t bar = choices.find('|');
    words.emplace_back(choices.substr(0, bar));
    choices = bar == std::string_view::npos ? std::string_view() : choices.substr(bar + 1);
  }
  return words;
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string kind = option.get_type_name();
  return kind.find('|') == std::string::npos ? std::vector<std::string>() : split_choices(kind);
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

bool was_given(const CLI::Option& option) { return option.count() > 0; }

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

}  // namespace tessera
