#include "api/show/choices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "api/show/run_fields.h"
#include "api/show/split_trial.h"
#include "api/show/values.h"
#include "base/error.h"
#include "base/text/text.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kAllUpTo = 8;  // so many are tried, whether they divide anything or not
constexpr int64_t kMostAxis = 4096, kMostContext = 64, kMostSequences = 64;

// What is tried, in the order in which what was said is settled where it is refused as a whole.
constexpr std::array<std::string_view, 10> kSizes = {
    "tp", "cp", "fsdp", "dp", "ep", "pp", "virtual_stages", "zero", "micro_batch", "global_batch"};
constexpr std::array<std::string_view, 5> kRecompute = {"none", "norms", "light", "selective",
                                                        "full"};

struct Refused {
  std::string value, why;
};

// The values of one key.
struct Tried {
  std::vector<std::string> accepted;
  std::vector<Refused> refused;
};

void add_divisors(int64_t number, int64_t most, std::set<int64_t>& values) {
  for (int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    for (const int64_t one : {d, number / d}) {
      if (one <= most) values.insert(one);
    }
  }
}

std::set<int64_t> up_to(int64_t most) {
  std::set<int64_t> values;
  for (int64_t value = 1; value <= most; ++value) values.insert(value);
  return values;
}

std::optional<int64_t> number_of(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional<int64_t>(value) : std::nullopt;
}

std::set<int64_t> candidate_sizes(std::string_view name, const RunSpec& run, int64_t devices) {
  const ModelSpec& model = run.model;
  if (name == "virtual_stages") return up_to(8);
  if (name == "zero") return {0, 1, 2, 3};
  if (name == "global_batch") return {};
  if (name == "micro_batch") {
    std::set<int64_t> values = up_to(4);
    add_divisors(kMostSequences, kMostSequences, values);
    return values;
  }
  std::set<int64_t> values = up_to(std::min(kAllUpTo, devices));
  if (name == "ep") {
    if (model.experts == 0) return {1, 2};
    add_divisors(model.experts, kMostAxis, values);
    return values;
  }
  const int64_t most = name == "tp"   ? std::max(model.heads, kAllUpTo)
                       : name == "pp" ? std::max(model.layers, kAllUpTo)
                       : name == "cp" ? kMostContext
                                      : kMostAxis;
  add_divisors(devices, most, values);
  if (name == "tp") add_divisors(model.heads, most, values);
  return values;
}

std::vector<std::string> candidates(std::string_view name, const SplitTrial& trial,
                                    const RunSpec& run) {
  std::set<int64_t> sizes = candidate_sizes(name, run, trial.cluster().devices);
  if (const auto said = number_of(trial.said(name))) sizes.insert(*said);
  std::vector<std::string> values;
  for (const int64_t size : sizes) values.push_back(std::to_string(size));
  return values;
}

Tried tried(std::string_view name, const std::vector<std::string>& values,
            const SplitTrial& trial) {
  Tried result;
  for (const std::string& value : values) {
    std::string why = trial.why_not(name, value);
    if (why.empty()) {
      result.accepted.push_back(value);
    } else {
      result.refused.push_back({value, std::move(why)});
    }
  }
  return result;
}

// Those of `accepted`, ascending, on both sides of a value.
std::vector<int64_t> neighbours(const std::vector<std::string>& accepted, int64_t value) {
  std::optional<int64_t> below, above;
  for (const std::string& one : accepted) {
    const int64_t number = number_of(one).value_or(0);
    if (number < value) below = number;
    if (number > value && !above) above = number;
  }
  std::vector<int64_t> result;
  if (below) result.push_back(*below);
  if (above) result.push_back(*above);
  return result;
}

int64_t nearest_to(const std::vector<std::string>& accepted, int64_t value) {
  int64_t nearest = number_of(accepted.front()).value_or(0);
  for (const std::string& one : accepted) {
    const int64_t number = number_of(one).value_or(0);
    if (std::abs(number - value) < std::abs(nearest - value)) nearest = number;
  }
  return nearest;
}

Json taken_json(const RunSpec& run) {
  const ParallelSpec& p = run.parallel;
  return {{"tp", p.tp},
          {"pp", p.pp},
          {"dp", p.dp},
          {"fsdp", p.fsdp},
          {"cp", p.cp},
          {"ep", p.ep},
          {"zero", p.zero},
          {"virtual_stages", p.virtual_stages},
          {"schedule", p.schedule.text()},
          {"recompute", p.recompute},
          {"sequence_parallel", p.sequence_parallel},
          {"micro_batch", run.train.micro_batch},
          {"global_batch", run.train.global_batch},
          {"seq_len", run.train.seq_len}};
}

// What was said, with the nearest accepted values where it is refused.
class Settled {
 public:
  explicit Settled(SplitTrial& trial) : trial_(trial) {
    if (trial.why_not().empty()) {
      trial.keep_length();
      return;
    }
    std::vector<std::pair<std::string_view, std::string>> said;
    const auto take = [&](std::string_view name) {
      if (trial.said(name).empty()) return;
      said.emplace_back(name, trial.said(name));
      trial.say(name, "");
    };
    for (const std::string_view name : {"schedule", "recompute", "sequence_parallel"}) take(name);
    for (const std::string_view name : kSizes) take(name);
    const std::string why = trial.why_not();
    require_config(why.empty(), "{}", why);
    trial.keep_length();
    for (const auto& [name, value] : said) settle(name, value);
    // Where no value would do beside the rest, what follows from the rest is taken.
    const Json taken = taken_json(trial.run());
    for (const auto& [name, change] : changes_.items()) {
      if (!change.contains("use")) change["use"] = taken.at(name);
    }
  }

  [[nodiscard]] const Json& changes() const { return changes_; }

 private:
  void settle(std::string_view name, const std::string& value) {
    const std::string why = trial_.why_not(name, value);
    if (why.empty()) {
      trial_.say(name, value);
      return;
    }
    const auto number = number_of(value);
    Json change = {{"said", value}, {"why", why}};
    if (number) {
      change["said"] = *number;
      const Tried near = tried(name, candidates(name, trial_, trial_.run()), trial_);
      if (!near.accepted.empty()) {
        const int64_t use = nearest_to(near.accepted, *number);
        trial_.say(name, std::to_string(use));
        change["use"] = use;
      }
    }
    changes_[std::string(name)] = std::move(change);
  }

  SplitTrial& trial_;
  Json changes_ = Json::object();
};

void add_sizes(const SplitTrial& trial, const RunSpec& run, Json& json) {
  Json refused = Json::object();
  for (const std::string_view name : kSizes) {
    if (name == "global_batch") continue;
    const Tried values = tried(name, candidates(name, trial, run), trial);
    Json accepted = Json::array(), others = Json::array();
    for (const std::string& value : values.accepted) accepted.push_back(*number_of(value));
    for (const Refused& one : values.refused) {
      const int64_t value = *number_of(one.value);
      others.push_back(
          {{"value", value}, {"why", one.why}, {"use", neighbours(values.accepted, value)}});
    }
    json[std::string(name)] = std::move(accepted);
    refused[std::string(name)] = std::move(others);
  }
  json["refused"] = std::move(refused);
}

void add_words(std::string_view key, std::string_view name, const std::vector<std::string>& values,
               const SplitTrial& trial, Json& json) {
  Json list = Json::array();
  for (const std::string& value : values) {
    const std::string why = trial.why_not(name, value);
    list.push_back({{"name", value}, {"ok", why.empty()}});
    if (!why.empty()) list.back()["why"] = why;
  }
  json[std::string(key)] = std::move(list);
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds()) names.emplace_back(name_of(kind.kind));
  return names;
}

std::string list_line(const Json& json, std::string_view name) {
  std::string text = fmt::format("{:<16}", name);
  for (const Json& value : json.at(std::string(name))) text += " " + value.dump();
  return text + "\n";
}

std::string words_line(const Json& json, std::string_view key) {
  std::string text = fmt::format("{:<16}", key), refused;
  for (const Json& word : json.at(std::string(key))) {
    const std::string name = word.at("name");
    if (word.at("ok").get<bool>()) {
      text += " " + name;
    } else {
      refused += fmt::format("  {}: {}\n", name, word.at("why").get<std::string>());
    }
  }
  return text + "\n" + refused;
}

}  // namespace

nlohmann::ordered_json choices_json(const PlanQuery& query, const Surroundings& around) {
  SplitTrial trial(query, around);
  const Settled settled(trial);
  const RunSpec run = trial.run();
  Json json = {{"model",
                {{"layers", run.model.layers},
                 {"heads", run.model.heads},
                 {"kv_heads", run.model.kv_heads},
                 {"experts", run.model.experts}}},
               {"cluster", trial.cluster().name},
               {"devices", trial.cluster().devices},
               {"taken", taken_json(run)},
               {"nearest", settled.changes()}};
  add_sizes(trial, run, json);
  add_words("schedules", "schedule", schedule_names(), trial, json);
  add_words("recompute", "recompute", {kRecompute.begin(), kRecompute.end()}, trial, json);
  add_words("sequence_parallel", "sequence_parallel", {"false", "true"}, trial, json);
  return json;
}

std::string choices_text(const PlanQuery& query, const Surroundings& around) {
  const Json json = choices_json(query, around);
  std::string text =
      fmt::format("what plan accepts, each beside the rest: {}\n", json.at("taken").dump());
  for (const auto& [name, change] : json.at("nearest").items()) {
    text += fmt::format("{} {}: {}; taken instead: {}\n", name, change.at("said").dump(),
                        change.at("why").get<std::string>(), change.at("use").dump());
  }
  text += "\n";
  for (const std::string_view name : kSizes) {
    if (name != "global_batch") text += list_line(json, name);
  }
  for (const char* key : {"schedules", "recompute", "sequence_parallel"}) {
    text += words_line(json, key);
  }
  return text;
}

ShowTopic choices_topic() {
  static const std::vector<ShowField> fields = with_run_fields({});
  return {"choices",
          "Which values of a split a plan accepts, and why not the others.",
          "--model llama-3-405b --cluster h100-16384 --tp 8",
          fields,
          [](const ShowValues& values, const Surroundings& around) {
            return choices_json(plan_query(values.request()), around);
          },
          for_terminals([](const ShowValues& values, const Surroundings& around) {
            return choices_text(plan_query(values.request()), around);
          })};
}

}  // namespace tessera
