#include "spec/entry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "spec/foreign_names.h"

namespace tessera {
namespace {

using nlohmann::json;

std::string describe(const json& value) {
  switch (value.type()) {
    case json::value_t::string:
      return "string " + in_quotes(value.get_ref<const std::string&>());
    case json::value_t::boolean:
      return fmt::format("boolean {}", value.get<bool>());
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return "integer " + value.dump();
    // Not dump(), which writes NaN as null.
    case json::value_t::number_float:
      return fmt::format("number {}", value.get<double>());
    case json::value_t::array:
      return fmt::format("an array of {}", value.size());
    case json::value_t::object:
      return "a table";
    default:
      return "null";
  }
}

// "4,096" and "4 096" without what people put between thousands; empty for anything else.
std::string without_thousands(std::string_view text) {
  std::string digits;
  size_t group = 0;  // digits since the last mark
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    const bool mark = c == ',' || c == ' ' || c == '\'';
    const bool after_group = group == digits.size() ? group >= 1 && group <= 3 : group == 3;
    if (!digit && !(mark && after_group)) return "";
    if (digit) digits += c;
    group = digit ? group + 1 : 0;
  }
  return group == 3 && digits.size() < text.size() ? digits : "";
}

std::string meant_truth(std::string_view text) {
  const std::string small = lower_case(text);
  const bool yes = small == "true" || small == "yes" || small == "on" || small == "1";
  const bool no = small == "false" || small == "no" || small == "off" || small == "0";
  return yes || no ? fmt::format("; write {}", yes) : "";
}

std::string meant_count(std::string_view text, const std::string& path) {
  const std::string digits = without_thousands(text);
  if (!digits.empty()) return fmt::format("; write {}", digits);
  const std::vector<std::string_view> pieces = split(text, ',');
  const bool several = pieces.size() > 1 && std::all_of(pieces.begin(), pieces.end(), [](auto one) {
                         return parse_count(trim(one)).has_value();
                       });
  if (!several) return "";
  return fmt::format("; it takes one value: 'tessera plan --vary {}={}' compares several", path,
                     text);
}

// What a text should have been, where the key takes something else: "; write true".
std::string meant_by(const Key& key, const json& value, const std::string& path) {
  if (!value.is_string()) return "";
  const auto& text = value.get_ref<const std::string&>();
  constexpr size_t kLongest = 60;
  if (text.size() > kLongest) return "";
  RunSpec spec;  // a place for the field, which says what the key takes
  const Field field = key.field(spec);
  if (std::holds_alternative<bool*>(field)) return meant_truth(text);
  if (std::holds_alternative<int64_t*>(field) || std::holds_alternative<uint64_t*>(field)) {
    return meant_count(text, path);
  }
  if (std::holds_alternative<double*>(field)) {
    return whole_real(text).has_value() ? fmt::format("; leave out the quotes: {}", text) : "";
  }
  const std::string_view here = value_called(text);
  const bool known = std::find(key.choices.begin(), key.choices.end(), here) != key.choices.end();
  const std::string meant = known ? std::string(here) : nearest_name(text, key.choices);
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

// The context of one assignment, and the checks that every field type shares.
struct Assignment {
  const Key& key;
  const json& value;
  const std::string& path;
  const std::string& at;
  Ranges ranges;

  [[noreturn]] void fail(std::string_view wanted) const {
    const std::string place = at.empty() ? path : fmt::format("{}: {}", at, path);
    throw ConfigError(fmt::format("{} must be {}, got {}{}", place, wanted, describe(value),
                                  meant_by(key, value, path)));
  }
  void expect(bool ok, std::string_view wanted) const {
    if (!ok) fail(wanted);
  }
  // `kind` is what the key takes: a number may be written as an integer.
  void expect_in_range(const json& number, std::string_view kind) const {
    if (ranges == Ranges::kIgnore || key.range.contains(number.get<double>())) return;
    fail(fmt::format("{} {}", kind, key.range.describe()));
  }
  [[nodiscard]] std::string choice() const {
    expect(value.is_string(), key.choices.empty()
                                  ? "a string"
                                  : fmt::format("one of {}", fmt::join(key.choices, ", ")));
    const auto text = value.get<std::string>();
    const bool known = key.choices.empty() ||
                       std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
    expect(known, fmt::format("one of {}", fmt::join(key.choices, ", ")));
    return text;
  }

  void operator()(int64_t* field) const {
    expect(value.is_number_integer(), "an integer");
    expect_in_range(value, "an integer");
    // Unsigned JSON numbers may not fit even where ranges are ignored.
    expect(!value.is_number_unsigned() ||
               value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()},
           "an integer below 2^63");
    *field = value.get<int64_t>();
  }
  void operator()(uint64_t* field) const {
    expect(value.is_number_integer(), "an integer");
    expect(value.is_number_unsigned() || value.get<int64_t>() >= 0, "an integer from 0");
    *field = value.get<uint64_t>();
  }
  void operator()(double* field) const {
    expect(value.is_number(), "a number");
    expect_in_range(value, "a number");
    *field = value.get<double>();
  }
  void operator()(bool* field) const {
    expect(value.is_boolean(), "true or false");
    *field = value.get<bool>();
  }
  void operator()(std::string* field) const { *field = choice(); }
  template <ChoiceEnum E>
  void operator()(E* field) const {
    const std::optional<E> named = choice_named<E>(choice());
    TESSERA_CHECK(named.has_value(), "{}: its choices are not the names of its type", path);
    *field = *named;
  }
  void operator()(PipelineChoice* field) const { *field = PipelineChoice::parse(choice()); }
  void operator()(TrainType field) const {
    *field.fp8 = value == "fp8";
    if (*field.fp8) {
      *field.type = DType::kBF16;
    } else {
      (*this)(field.type);
    }
  }
  void operator()(DType* field) const {
    const std::string name = choice();
    for (const DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      if (name == name_of(type)) *field = type;
    }
  }
  // [3, 2, 2], or "3+2+2" where a list cannot be written (--mesh, --set).
  void operator()(std::vector<int64_t>* field) const {
    constexpr std::string_view kWanted = "an array of integers, or text like \"3+2+2\"";
    std::vector<int64_t> numbers;
    if (value.is_string()) {
      const auto text = value.get<std::string>();
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('+', begin), text.size());
        const json number = json::parse(text.substr(begin, end - begin), nullptr, false);
        expect(number.is_number_unsigned(), kWanted);
        numbers.push_back(number.get<int64_t>());
        begin = end + 1;
      }
    } else {
      expect(value.is_array(), kWanted);
      for (const json& number : value) {
        expect(number.is_number_integer(), kWanted);
        numbers.push_back(number.get<int64_t>());
      }
    }
    for (const int64_t number : numbers) {
      Assignment{key, json(number), path, at, ranges}.expect_in_range(json(number), "an integer");
    }
    *field = std::move(numbers);
  }
  // [{ path = "a", weight = 2 }, { path = "b" }]
  void operator()(std::vector<DataPart>* field) const {
    constexpr std::string_view kWanted =
        "an array of tables such as { path = \"set\", weight = 2.5 }";
    expect(value.is_array(), kWanted);
    std::vector<DataPart> parts;
    for (const json& table : value) {
      expect(table.is_object() && table.contains("path") && table["path"].is_string(), kWanted);
      DataPart part{.path = table["path"].get<std::string>()};
      for (const auto& [name, said] : table.items()) {
        expect(name == "path" || name == "weight", kWanted);
        if (name != "weight") continue;
        expect(said.is_number(), kWanted);
        Assignment{key, said, path, at, ranges}.expect_in_range(
            said, "an array of tables, their weights");
        part.weight = said.get<double>();
      }
      expect(!part.path.empty(), kWanted);
      parts.push_back(std::move(part));
    }
    *field = std::move(parts);
  }
  // "set", ["a", "b"] or { docs = "a", code = "b" }
  void operator()(std::vector<ValidSet>* field) const {
    constexpr std::string_view kWanted =
        "the path of a set, an array of paths, or a table such as { docs = \"a\", code = \"b\" }";
    std::vector<ValidSet> sets;
    for (const auto& [name, said] : value.items()) {  // of a text: itself
      expect(said.is_string() && (value.is_string() || !said.get<std::string>().empty()), kWanted);
      expect(!value.is_object() || !name.empty(), kWanted);
      sets.push_back({value.is_object() ? name : "", said.get<std::string>()});
    }
    expect(value.is_string() || !sets.empty(), kWanted);
    if (value.is_string() && sets.front().path.empty()) sets.clear();
    if (value.is_array()) name_by_paths(sets);
    std::sort(sets.begin(), sets.end(),
              [](const ValidSet& a, const ValidSet& b) { return a.name < b.name; });
    *field = std::move(sets);
  }
  // By the last part of their paths, where these are different, else by the whole.
  void name_by_paths(std::vector<ValidSet>& sets) const {
    const auto name = [&](bool whole) {
      std::set<std::string> names;
      for (ValidSet& set : sets) {
        const std::string_view path = std::string_view(set.path).substr(
            0, std::max<size_t>(1, set.path.find_last_not_of('/') + 1));
        const size_t last = whole ? 0 : path.find_last_of('/') + 1;
        set.name = path.substr(last < path.size() ? last : 0);
        names.insert(set.name);
      }
      return names.size() == sets.size();
    };
    if (!name(/*whole=*/false)) expect(name(/*whole=*/true), "paths that are all different");
  }
  void operator()(Betas field) const {
    constexpr std::string_view kWanted = "an array of two numbers [beta1, beta2]";
    expect(value.is_array() && value.size() == 2, kWanted);
    expect(value[0].is_number() && value[1].is_number(), kWanted);
    for (const json& beta : value) {
      Assignment{key, beta, path, at, ranges}.expect_in_range(beta, "a number");
    }
    *field.first = value[0].get<double>();
    *field.second = value[1].get<double>();
  }
};

struct Reader {
  nlohmann::ordered_json operator()(const DType* type) const { return name_of(*type); }
  template <ChoiceEnum E>
  nlohmann::ordered_json operator()(const E* choice) const {
    return name_of(*choice);
  }
  nlohmann::ordered_json operator()(const PipelineChoice* choice) const { return choice->text(); }
  nlohmann::ordered_json operator()(TrainType type) const {
    return *type.fp8 ? "fp8" : name_of(*type.type);
  }
  nlohmann::ordered_json operator()(Betas betas) const {
    return nlohmann::ordered_json::array({*betas.first, *betas.second});
  }
  nlohmann::ordered_json operator()(const std::vector<DataPart>* parts) const {
    auto list = nlohmann::ordered_json::array();
    for (const DataPart& part : *parts) {
      list.push_back({{"path", part.path}, {"weight", part.weight}});
    }
    return list;
  }
  nlohmann::ordered_json operator()(const std::vector<ValidSet>* sets) const {
    if (sets->empty()) return "";
    if (sets->size() == 1 && sets->front().name.empty()) return sets->front().path;
    auto table = nlohmann::ordered_json::object();
    for (const ValidSet& set : *sets) table[set.name] = set.path;
    return table;
  }
  nlohmann::ordered_json operator()(const auto* value) const { return *value; }
};

[[noreturn]] void fail_unknown(const Entry& entry) {
  const auto known = names_in(entry.section);
  const std::string foreign = foreign_name_advice(entry.name);
  if (!entry.section.empty() && !foreign.empty() && nearest_name(entry.name, known).empty()) {
    throw ConfigError(fmt::format("{}: unknown key '{}' in [{}]{}", entry.key_at,
                                  shortened(entry.name), entry.section, foreign));
  }
  if (!entry.section.empty()) {
    throw ConfigError(fmt::format("{}: unknown key '{}' in [{}]; {}", entry.key_at,
                                  shortened(entry.name), entry.section,
                                  suggestion(entry.name, known, "keys")));
  }
  for (const Key& key : run_keys()) {
    if (key.name == entry.name) {
      throw ConfigError(fmt::format("{}: unknown section '{}'; did you mean '{}'?", entry.key_at,
                                    shortened(entry.name), join_path(key.section, key.name)));
    }
  }
  throw ConfigError(fmt::format("{}: unknown section '{}'; {}", entry.key_at, shortened(entry.name),
                                suggestion(entry.name, known, "sections")));
}

bool names_section(const Entry& entry) {
  return entry.name.find('.') == std::string::npos &&
         is_section(join_path(entry.section, entry.name));
}

}  // namespace

void assign(const Key& key, Field field, const json& value, const std::string& path,
            const std::string& at, Ranges ranges) {
  std::visit(Assignment{key, value, path, at, ranges}, field);
}

json as_count(const Key& key, json value) {
  RunSpec spec;  // a place for the field, which says what the key takes
  if (!std::holds_alternative<int64_t*>(key.field(spec))) return value;
  std::optional<int64_t> count;
  if (value.is_string()) count = parse_count(value.get_ref<const std::string&>(), key.k);
  if (value.is_number_float()) count = whole_number(value.get<double>());
  return count.has_value() ? json(*count) : value;
}

nlohmann::ordered_json value_of(const Field& field) { return std::visit(Reader{}, field); }

void apply(std::span<const Entry> entries, RunSpec& spec, Ranges ranges) {
  for (const Entry& entry : entries) {
    const std::string path = join_path(entry.section, entry.name);
    if (names_section(entry)) {
      require_config(entry.value.is_object(), "{}: {} must be a table, got {}", entry.value_at,
                     path, describe(entry.value));
      continue;
    }
    if (is_flag_default(entry.section, entry.name)) {
      require_config(entry.value.is_string(), "{}: {} must be a string, got {}", entry.value_at,
                     path, describe(entry.value));
      continue;
    }
    const Key* key = find_key(entry.section, entry.name);
    if (key == nullptr) fail_unknown(entry);
    assign(*key, key->field(spec), as_count(*key, entry.value), path, entry.value_at, ranges);
  }
}

void check_ranges(RunSpec& spec) {
  for (const Key& key : run_keys()) {
    const Field field = key.field(spec);
    assign(key, field, value_of(field), join_path(key.section, key.name), "", Ranges::kCheck);
  }
}

}  // namespace tessera
