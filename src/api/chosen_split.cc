#include "api/chosen_split.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"
#include "compile/scale/scale_plan.h"
#include "plan/fit_changes.h"
#include "plan/memory_limit.h"
#include "plan/plan.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr int64_t kMostFirstStages = 64;

using Settings = std::vector<std::string>;

std::string key_of(const std::string& setting) {
  return std::string(trim(std::string_view(setting).substr(0, setting.find('='))));
}

std::set<std::string> keys_of(const Settings& settings) {
  std::set<std::string> keys;
  for (const std::string& setting : settings) keys.insert(key_of(setting));
  return keys;
}

bool is_whole(const RunSource& source, const std::set<std::string>& said) {
  if (!source.file.empty() || !source.mesh.empty() || said.contains("parallel.dp")) return true;
  return said.contains("parallel.tp") && said.contains("parallel.pp") &&
         (said.contains("parallel.zero") || said.contains("parallel.fsdp"));
}

// Everything that somebody says, a recipe included.
std::set<std::string> keys_said(const RunSource& source, const SplitFlags& split) {
  const RunSource all = with_settings(source, split);
  Settings settings = all.overrides;
  for (const std::vector<Setting>* more : {&all.under, &all.flags}) {
    for (const Setting& setting : *more) settings.push_back(setting.text);
  }
  return keys_of(settings);
}

RunSource with_first(const RunSource& source, const Settings& settings) {
  RunSource result = source;
  for (const std::string& setting : settings) result.under.push_back({setting, "chosen"});
  return result;
}

// "--tp 8", or "--set parallel.prefetch=2" where a key has no flag of its own.
std::string flag_of(const SplitFlags& split, const std::string& setting) {
  const std::string key = key_of(setting);
  const std::string value = setting.substr(setting.find('=') + 1);
  for (const SplitFlags::Size& size : split.sizes) {
    if (size.key == key) return fmt::format("{} {}", size.flag, value);
  }
  for (const SplitFlags::Word& word : split.words) {
    if (word.key == key) return fmt::format("{} {}", word.flag, value);
  }
  if (setting == "parallel.sequence_parallel=true") return "--sequence-parallel";
  return "--set " + setting;
}

std::string flags_of(const SplitFlags& split, const Settings& settings) {
  Settings flags;
  for (const std::string& setting : settings) flags.push_back(flag_of(split, setting));
  return fmt::format("{}", fmt::join(flags, " "));
}

// Chooses what nobody said of a split.
class SplitChoice {
 public:
  SplitChoice(const RunSource& source, const SplitFlags& split, const Cluster& cluster,
              const Engine& engine, const FileReader& read)
      : source_(source),
        split_(split),
        cluster_(cluster),
        engine_(engine),
        read_(read),
        products_(asks_for_fp8(split) ? BlockProducts::kFp8 : BlockProducts::kAsTrained),
        said_(keys_said(source, split)) {}

  RunSpec load(std::vector<Guess>& guesses, OpenSettings* open);
  [[nodiscard]] RunSpec first() const { return start().spec; }

 private:
  struct Start {
    RunSpec spec;
    Settings settings;  // that plain data parallelism lacks to be possible at all
    std::vector<Guess> guesses;
    OpenSettings open;
  };

  [[nodiscard]] Start start_with(const Settings& settings) const;
  [[nodiscard]] Start start() const;
  [[nodiscard]] std::optional<int64_t> planned_bytes(const RunSpec& spec);

  [[nodiscard]] Guess guess_of(const Start& start, const Settings& chosen, int64_t bytes) const;

  const RunSource& source_;
  const SplitFlags& split_;
  const Cluster& cluster_;
  const Engine& engine_;
  const FileReader& read_;
  BlockProducts products_;
  std::set<std::string> said_;
  ScalePlanner planner_{kMostTemplateWork};
};

SplitChoice::Start SplitChoice::start_with(const Settings& settings) const {
  Start start;
  start.settings = settings;
  start.spec = load_split(with_first(source_, settings), split_, cluster_, read_, start.guesses,
                          &start.open);
  return start;
}

// Plain data parallelism over what is left. Where there are more devices than an axis or the batch
// can have, the first tp, then pp as well, with which there is a run.
SplitChoice::Start SplitChoice::start() const {
  try {
    return start_with({});
  } catch (const ConfigError&) {
    if (is_whole(source_, said_)) throw;
    Settings settings;
    const auto tried = [&](const std::string& key, int64_t size) -> std::optional<Start> {
      std::erase_if(settings, [&](const std::string& one) { return key_of(one) == key; });
      settings.push_back(fmt::format("{}={}", key, size));
      try {
        return start_with(settings);
      } catch (const ConfigError&) {
        return std::nullopt;
      }
    };
    const int64_t most_tp = said_.contains("parallel.tp") ? 1 : cluster_.node_devices();
    for (int64_t tp = 2; tp <= most_tp; tp *= 2) {
      if (std::optional<Start> found = tried("parallel.tp", tp)) return *std::move(found);
    }
    const int64_t most_pp = said_.contains("parallel.pp") ? 1 : kMostFirstStages;
    for (int64_t pp = 2; pp <= most_pp; pp *= 2) {
      if (std::optional<Start> found = tried("parallel.pp", pp)) return *std::move(found);
    }
    throw;
  }
}

// Nothing where there is no plan; whoever plans it says why.
std::optional<int64_t> SplitChoice::planned_bytes(const RunSpec& spec) {
  try {
    return make_plan({.spec = spec, .cluster = cluster_, .engine = engine_, .products = products_},
                     planner_)
        .peak_bytes();
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

Guess SplitChoice::guess_of(const Start& start, const Settings& chosen, int64_t bytes) const {
  const std::string why = start.settings.empty()
                              ? fmt::format("without them a rank needs {}", human_bytes(bytes))
                              : "without them there is no run on so many devices";
  return {"split",
          fmt::format("{}: the cheapest that plan --check finds to fit; {}; tessera search "
                      "compares all splits",
                      flags_of(split_, chosen), why)};
}

RunSpec SplitChoice::load(std::vector<Guess>& guesses, OpenSettings* open) {
  Start base = start();
  const auto use = [&](Start& start) {
    guesses.insert(guesses.end(), start.guesses.begin(), start.guesses.end());
    if (open != nullptr) *open = start.open;
    return std::move(start.spec);
  };
  if (is_whole(source_, said_)) return use(base);
  const std::optional<int64_t> bytes = planned_bytes(base.spec);
  if (!bytes) return use(base);
  const bool fits = *bytes <= memory_limit(base.spec, cluster_);
  if (fits && base.settings.empty()) return use(base);
  Settings chosen = base.settings;
  if (!fits) {
    const std::optional<FitChange> change =
        cheapest_fit(base.spec, base.open, cluster_, engine_, planner_, said_, products_);
    if (!change) return use(base);
    chosen.insert(chosen.end(), change->settings.begin(), change->settings.end());
  }
  std::erase_if(chosen, [](const std::string& one) { return key_of(one) == "parallel.dp"; });
  Start fitting = start_with(chosen);
  guesses.push_back(guess_of(base, chosen, *bytes));
  if (keys_of(chosen).contains("train.global_batch")) {
    fitting.guesses.push_back(
        {"train.global_batch",
         fmt::format("{}, {}", count_of(fitting.spec.train.global_batch, "sequence"),
                     count_of(accumulation(fitting.spec), "micro-batch"))});
  }
  return use(fitting);
}

}  // namespace

RunSpec load_fitting_split(const RunSource& source, const SplitFlags& split, const Cluster& cluster,
                           const Engine& engine, const FileReader& read,
                           std::vector<Guess>& guesses, OpenSettings* open) {
  return SplitChoice(source, split, cluster, engine, read).load(guesses, open);
}

RunSpec load_possible_split(const RunSource& source, const SplitFlags& split,
                            const Cluster& cluster, const Engine& engine, const FileReader& read) {
  return SplitChoice(source, split, cluster, engine, read).first();
}

}  // namespace tessera
