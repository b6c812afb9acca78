#include "search/next_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace tessera {
namespace {

constexpr size_t kMostFlags = 3;

std::string plan_command(const SearchReport& report) {
  std::string text =
      fmt::format("tessera plan --model {} --cluster {}", report.model.preset, report.cluster);
  if (!report.engine.empty()) text += " --engine " + report.engine;
  return text;
}

const RankedStrategy* first_with_flags(const SearchReport& report) {
  for (const RankedStrategy& ranked : report.plans) {
    if (!ranked.file.plan_flags.empty()) return &ranked;
  }
  const bool has = report.runnable && !report.runnable->file.plan_flags.empty();
  return has ? &*report.runnable : nullptr;
}

}  // namespace

std::string flags_text(const SearchReport& report) {
  std::string text;
  size_t lines = 0;
  for (const RankedStrategy& ranked : report.plans) {
    if (ranked.file.plan_flags.empty() || lines == kMostFlags) continue;
    text += fmt::format("{:>3}  {}\n", ranked.number, ranked.file.plan_flags);
    ++lines;
  }
  if (text.empty() || report.cluster.empty()) return "";
  const bool all = lines == report.plans.size();
  return fmt::format("\nas flags of {}{}\n{}", plan_command(report),
                     all ? "" : " (--json has all that it can say)", text);
}

std::string other_flags(const FixedAxes& fixed, const Strategy& s) {
  struct FixedFlag {
    std::string_view flag;
    int64_t fixed, value;
  };
  const std::array<FixedFlag, 6> axes = {{{"--tp", fixed.tp, s.tp},
                                          {"--pp", fixed.pp, s.pp},
                                          {"--dp", fixed.dp, s.dp},
                                          {"--cp", fixed.cp, s.cp},
                                          {"--ep", fixed.ep, s.ep},
                                          {"--micro-batch", fixed.micro_batch, s.micro_batch}}};
  std::vector<std::string> flags;
  for (const FixedFlag& axis : axes) {
    if (axis.fixed != 0 && axis.fixed != axis.value) {
      flags.push_back(fmt::format("{} {}", axis.flag, axis.value));
    }
  }
  if (fixed.zero >= 0 && fixed.zero != s.zero) flags.push_back(fmt::format("--zero {}", s.zero));
  const auto lacks = [](const auto& list, auto value) {
    return !list.empty() && std::find(list.begin(), list.end(), value) == list.end();
  };
  if (s.pp > 1 && lacks(fixed.schedules, s.schedule)) {
    flags.push_back(fmt::format("--schedule {}", name_of(s.schedule)));
  }
  if (lacks(fixed.recompute, way_of(s))) {
    flags.push_back(fmt::format("--recompute {}", kRecomputeWays[static_cast<size_t>(way_of(s))]));
  }
  if (flags.empty() && fixed.system != nullptr) flags.emplace_back("no --for");
  return fmt::format("{}", fmt::join(flags, " "));
}

std::string no_run_text(const SearchReport& report) {
  if (report.to_run.empty()) {
    return "tessera train can run no plan of it: its Programs need more memory in every way that "
           "was tried; shorter sequences, or devices with more memory, would do\n";
  }
  return fmt::format(
      "tessera train can run no plan of it: its Programs need more memory; with {} "
      "it can\n",
      fmt::join(report.to_run, ", or with "));
}

std::string next_text(const SearchReport& report) {
  if (report.outcome.stopped || report.cluster.empty()) return "";
  std::string text;
  if (const RankedStrategy* ranked = first_with_flags(report)) {
    text += fmt::format("\nnext: {} {}\n", plan_command(report), ranked->file.plan_flags);
  }
  const auto runs = [](const RankedStrategy& ranked) { return ranked.file.lacks.empty(); };
  const bool can_run =
      report.runnable.has_value() || std::any_of(report.plans.begin(), report.plans.end(), runs);
  if (can_run && !report.command.empty() && !report.writes_files) {
    text += fmt::format("{}{} --out plans\n", text.empty() ? "\nnext: " : "  or: ", report.command);
  }
  return text;
}

}  // namespace tessera
