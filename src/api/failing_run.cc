#include "api/failing_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/stage_simulation.h"
#include "base/error.h"
#include "base/text/noun.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "draw/failing_time.h"
#include "plan/report/plan_json.h"

namespace tessera {
namespace {

constexpr double kDay = 86'400;
constexpr double kMostDays = 3650;
constexpr double kMostEvents = 1e6;    // saves and failures that are played
constexpr size_t kMostSpans = 20'000;  // in JSON
constexpr double kRepair = kDay;

std::string seconds_text_of(double seconds) { return text_of({seconds, Unit::kSeconds}); }

double time_of(std::string_view flag, const std::string& text, double otherwise) {
  if (text.empty()) return otherwise;
  const double seconds = parse_quantity(Unit::kSeconds, text, flag);
  require_config(seconds >= 0 && seconds <= 1e12, "{} is {}: expected a time from 0 on", flag,
                 in_quotes(text));
  return seconds;
}

// Counts, which are steps, have no unit.
std::optional<int64_t> steps_said(const std::string& text) {
  const std::optional<int64_t> steps = parse_count(text);
  require_config(!steps || *steps >= 1, "--save-every is {}: expected at least one step",
                 in_quotes(text));
  return steps;
}

}  // namespace

void check_failing(const SimulateQuery& query, bool traced) {
  const FailingFlags& f = query.failing;
  if (f.mtbf.empty()) {
    require_config(f == FailingFlags{},
                   "--days, --save-every, --save, --restart, --spares, --repair and --seed are of "
                   "a run that fails: add --mtbf, the time between failures of one device, as in "
                   "--mtbf 50000h");
    return;
  }
  require_config(!query.schedule_only && !traced && query.lost.empty(),
                 "--mtbf plays many steps: leave out --schedule-only, --trace and --lost");
  require_config(f.days > 0 && f.days <= kMostDays,
                 "--days is {:g}: expected more than 0 and at most {:g}", f.days, kMostDays);
}

FailingRunSimulation::FailingRunSimulation(const SimulateQuery& query, const RunSpec& spec,
                                           std::vector<Guess> guesses, const Surroundings& around)
    : guesses_(std::move(guesses)), seed_(query.failing.seed) {
  check_failing(query);
  const FailingFlags& flags = query.failing;
  days_ = flags.days;
  read_step(query, spec, around);
  const SimulatedMachine machine = [&] {
    std::vector<Guess> twice;
    return simulated_machine(query, spec, around, twice);
  }();
  devices_ = machine.used.devices;
  plan_ = price_failures(spec, head_.at("parameters").get<int64_t>(), machine.used,
                         {flags.mtbf, flags.save, flags.restart, "--mtbf"}, guesses_);
  choose_interval(flags);
  run_ = {.model = plan_.model,
          .interval = plan_.interval_s,
          .work = HUGE_VAL,
          .until = days_ * kDay,
          .spares = flags.spares,
          .repair = time_of("--repair", flags.repair, kRepair)};
  if (flags.spares < 0) {
    guesses_.push_back({"spares", "one is always there (--spares N: so many, and repairs)"});
  } else if (flags.repair.empty()) {
    guesses_.push_back({"time of a repair", "1 day (--repair)"});
  }
  const double events = run_.until / plan_.interval_s + run_.until / plan_.model.mtbf;
  require_config(events <= kMostEvents,
                 "{} have {} saves and failures, more than the {} that are played; use fewer "
                 "--days, or saves that are further apart with --save-every",
                 with_noun(fmt::format("{:g}", days_), "day"), text_of({events, Unit::kCount}),
                 text_of({kMostEvents, Unit::kCount}));
  replay_ = replay_failures(run_, static_cast<uint64_t>(seed_), /*keep_spans=*/true);
}

// What a step takes, as "simulate" says it of the same request without failures.
void FailingRunSimulation::read_step(const SimulateQuery& query, const RunSpec& spec,
                                     const Surroundings& around) {
  std::string why = why_by_stages(query, spec);
  nlohmann::ordered_json json;
  if (!why.empty()) {
    const StageSimulation simulation(query, spec, guesses_, around, std::move(why));
    json = simulation.json();
    title_ = simulation.picture_title();
    guesses_ = simulation.guesses();
  } else {
    const StepSimulation simulation(query, spec, guesses_, around);
    json = simulation.json();
    title_ = simulation.picture_title();
    guesses_ = simulation.guesses();
  }
  for (const char* key : {"world", "mesh", "parameters", "cluster", "step_s"}) {
    head_[key] = json.at(key);
  }
  step_s_ = head_.at("step_s").get<double>();
  require_config(step_s_ > 0, "a step takes no time, so nothing can fail in it");
  step_tokens_ =
      static_cast<double>(spec.train.global_batch) * static_cast<double>(spec.train.seq_len);
}

void FailingRunSimulation::choose_interval(const FailingFlags& flags) {
  plan_.every = flags.save_every.empty() ? 0 : steps_said(flags.save_every).value_or(0);
  if (plan_.every == 0) {
    const double best = std::max(best_interval(plan_.model), plan_.model.write);
    const double interval = time_of("--save-every", flags.save_every, best);
    plan_.every =
        std::max<int64_t>(1, static_cast<int64_t>(std::min(interval / step_s_, 1e15) + 0.5));
  }
  plan_.interval_s = static_cast<double>(plan_.every) * step_s_;
  plan_.goodput = goodput(plan_.model, plan_.interval_s);
}

std::string FailingRunSimulation::title() const {
  return fmt::format("{} of {}", with_noun(fmt::format("{:g}", days_), "day"), title_);
}

std::string FailingRunSimulation::run_text() const {
  std::string text = fmt::format(
      "a failure every {} of {} ({} of a device), {}; a save every {} "
      "({}); a restart takes {}",
      seconds_text_of(plan_.model.mtbf), count_of(devices_, "device"),
      seconds_text_of(plan_.mtbf_device_s), count_of(replay_.failures, "failure"),
      count_of(plan_.every, "step"), seconds_text_of(plan_.interval_s),
      seconds_text_of(plan_.model.restart));
  if (run_.spares >= 0) {
    text += fmt::format("; {}, repairs take {}", count_of(run_.spares, "spare"),
                        seconds_text_of(run_.repair));
  }
  return text;
}

std::string FailingRunSimulation::text(size_t columns) const {
  TextTable table({{"", Align::kLeft}, {"time", Align::kRight}, {"share", Align::kRight}});
  for (const RunPhase phase : kAllRunPhases) {
    table.add_row({std::string(name_of(phase)), seconds_text_of(replay_.of(phase)),
                   percent_text(replay_.of(phase), replay_.total)});
  }
  table.add_rule();
  table.add_row({"in all", seconds_text_of(replay_.total), ""});
  const double steps = replay_.of(RunPhase::kTrain) / step_s_;
  std::string expected =
      run_.spares < 0 ? fmt::format("; by the formula {:.2f} %", 100 * plan_.goodput) : "";
  return fmt::format("{}\n{}\n\n{}\n{}\ngoodput {:.2f} %{}; {} and {} are done\n{}", title(),
                     run_text(), failing_time_text(replay_, columns), table.str(),
                     100 * replay_.goodput(), expected,
                     with_noun(text_of({std::floor(steps), Unit::kCount}), "step"),
                     with_noun(text_of({std::floor(steps) * step_tokens_, Unit::kCount}), "token"),
                     guesses_text(guesses_));
}

// Without the saves where there are too many spans with them.
nlohmann::ordered_json FailingRunSimulation::spans_json() const {
  std::vector<RunSpan> spans = replay_.spans;
  if (spans.size() > kMostSpans) {
    spans.clear();
    for (RunSpan span : replay_.spans) {
      if (span.phase == RunPhase::kSave) span.phase = RunPhase::kTrain;
      if (!spans.empty() && spans.back().phase == span.phase) {
        spans.back().end = span.end;
      } else {
        spans.push_back(span);
      }
    }
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  if (spans.size() > kMostSpans) return json;
  for (const RunSpan& span : spans) {
    json.push_back({{"phase", name_of(span.phase)}, {"begin_s", span.begin}, {"end_s", span.end}});
  }
  return json;
}

nlohmann::ordered_json FailingRunSimulation::json() const {
  nlohmann::ordered_json json = {{"schema_version", kPlanSchemaVersion}, {"kind", "failing_run"}};
  json.update(head_);
  json["days"] = days_;
  json["seed"] = seed_;
  json["mtbf_device_s"] = plan_.mtbf_device_s;
  json["mtbf_s"] = plan_.model.mtbf;
  json["checkpoint_bytes"] = plan_.checkpoint_bytes;
  json["save_s"] = plan_.model.stall;
  json["write_s"] = plan_.model.write;
  json["restart_s"] = plan_.model.restart;
  json["save_every_steps"] = plan_.every;
  json["save_every_s"] = plan_.interval_s;
  if (run_.spares >= 0) {
    json["spares"] = run_.spares;
    json["repair_s"] = run_.repair;
  }
  json["failures"] = replay_.failures;
  json["saves"] = replay_.saves;
  json["skipped_saves"] = replay_.skipped_saves;
  for (const RunPhase phase : kAllRunPhases) {
    json["seconds"][std::string(name_of(phase))] = replay_.of(phase);
  }
  json["goodput"] = replay_.goodput();
  if (run_.spares < 0) json["goodput_by_formula"] = plan_.goodput;
  json["tokens"] = std::floor(replay_.of(RunPhase::kTrain) / step_s_) * step_tokens_;
  json["spans"] = spans_json();
  json["guesses"] = guesses_json(guesses_);
  return json;
}

std::string FailingRunSimulation::svg() const {
  return failing_time_svg(replay_, title(),
                          fmt::format("{}; goodput {:.2f} %", run_text(), 100 * replay_.goodput()));
}

}  // namespace tessera
