#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/text.h"
#include "base/text/units.h"
#include "search/deadline_report.h"
#include "search/next_steps.h"
#include "search/report.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

constexpr int64_t kFrontLines = 20;

// The part of the front that fits on a page: the fastest of each of so many equal steps of memory.
std::vector<const SimulatedStrategy*> readable(const std::vector<SimulatedStrategy>& front,
                                               int64_t most) {
  std::vector<const SimulatedStrategy*> shown;
  const bool all = static_cast<int64_t>(front.size()) <= most;
  const double least = static_cast<double>(front.back().peak_bytes());
  const double range = static_cast<double>(front.front().peak_bytes()) - least;
  int64_t before = -1;
  for (const SimulatedStrategy& plan : front) {
    const double height = static_cast<double>(plan.peak_bytes()) - least;
    // The smallest plan has a step of its own.
    const bool last = &plan == &front.back();
    const int64_t step =
        last ? most : static_cast<int64_t>(height / range * static_cast<double>(most - 1));
    if (all || step != before) shown.push_back(&plan);
    before = step;
  }
  return shown;
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.4g} s", seconds);
}

std::string gibibytes(int64_t bytes) {
  const double value = static_cast<double>(bytes) / kGibibyte;
  return value < 0.95 ? fmt::format("{:.2g}", value) : fmt::format("{:.1f}", value);
}

std::string split_text(const Strategy& s) {
  std::string text = fmt::format("tp {} pp {} dp {}", s.tp, s.pp, s.dp);
  if (s.cp > 1) text += fmt::format(" cp {} {}", s.cp, name_of(s.context));
  if (s.ep > 1) text += fmt::format(" ep {}", s.ep);
  if (s.expert_tp > 1) text += fmt::format(" etp {}", s.expert_tp);
  if (s.sequence_parallel) text += " sp";
  if (s.order != RankOrder::kTensorDataPipeline) text += fmt::format(" ({})", name_of(s.order));
  return text;
}

std::string schedule_text_of(const Strategy& s) {
  if (s.pp == 1) return "-";
  std::string text(name_of(s.schedule));
  if (schedule_kind(s.schedule).any_virtual_stages) text += fmt::format(" x{}", s.virtual_stages);
  if (!s.stage_layers.empty()) text += " uneven";
  return text;
}

std::string sharding_text(const Strategy& s) {
  if (s.zero == 0) return "-";
  std::string text = fmt::format("ZeRO-{}", s.zero);
  if (s.shard > 0) text += fmt::format("/{}", s.shard);
  if (s.zero == 3 && !s.release_after_forward) text += " keep";
  return text;
}

std::string recompute_text_of(const Strategy& s) {
  if (s.recompute != Recompute::kFull) return std::string(name_of(s.recompute));
  if (!s.stage_recompute.empty()) {
    int64_t layers = 0, stages = 0;
    for (const int64_t again : s.stage_recompute) {
      layers += again;
      stages += again > 0 ? 1 : 0;
    }
    return fmt::format("{} layer{} of {} stage{}", layers, layers == 1 ? "" : "s", stages,
                       stages == 1 ? "" : "s");
  }
  return s.recompute_layers < 0 ? "full" : fmt::format("full {} a rank", s.recompute_layers);
}

std::string exposed_text(const StepTime& time) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < kNumCommAxes; ++i) {
    if (time.exposed_s[i] < 5e-4 * time.step_s) continue;
    parts.push_back(fmt::format("{} {:.1f}%", name_of(static_cast<CommAxis>(i)),
                                100 * time.exposed_s[i] / time.step_s));
  }
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, " "));
}

std::string percent(double part, double whole) {
  return fmt::format("{:.1f}%", 100 * part / whole);
}

// "-3.1 %"; what rounds to nothing has no sign.
std::string change_text(double percent) {
  return percent > -0.05 && percent < 0.05 ? "0.0 %" : fmt::format("{:+.1f} %", percent);
}

// The column of our Programs is there where somebody has asked for them.
TextTable plan_table(bool with_engine) {
  std::vector<TextTable::Column> columns = {{"", Align::kRight},        {"split", Align::kLeft},
                                            {"schedule", Align::kLeft}, {"micro", Align::kRight},
                                            {"states", Align::kLeft},   {"recompute", Align::kLeft},
                                            {"GiB", Align::kRight}};
  if (with_engine) columns.push_back({"train", Align::kRight});
  for (const TextTable::Column& column :
       {TextTable::Column{"step", Align::kRight}, TextTable::Column{"kernels", Align::kRight},
        TextTable::Column{"exposed", Align::kLeft}, TextTable::Column{"bubble", Align::kRight},
        TextTable::Column{"MFU", Align::kRight}}) {
    columns.push_back(column);
  }
  return TextTable(std::move(columns));
}

// `file`: nullptr in a table without the engine.
void add_plan(TextTable& table, size_t number, const SimulatedStrategy& plan,
              const EngineFile* file) {
  const Strategy& s = plan.strategy;
  const StepTime& time = plan.estimate.time;
  std::vector<std::string> cells = {
      std::to_string(number),        split_text(s),    schedule_text_of(s),
      std::to_string(s.micro_batch), sharding_text(s), recompute_text_of(s),
      gibibytes(plan.peak_bytes())};
  if (file != nullptr) {
    cells.push_back(file->peak_bytes > 0 ? gibibytes(file->peak_bytes) : "-");
  }
  for (std::string cell :
       {seconds_text(time.step_s), percent(time.compute_s + time.optimizer_s, time.step_s),
        exposed_text(time), percent(time.bubble_s, time.step_s), percent(plan.estimate.mfu, 1)}) {
    cells.push_back(std::move(cell));
  }
  table.add_row(std::move(cells));
}

std::string head_text(const SearchReport& report) {
  const Workload& w = report.workload;
  const SearchOutcome& o = report.outcome;
  std::string text = fmt::format(
      "{} on {} x {} ({}{}), {} sequences of {} tokens\n"
      "{} configurations of {} splits in {} groups, {} prices, {} simulations{}\n",
      report.model.preset, with_thousands(w.cluster.devices), w.cluster.device.name,
      !report.counts.empty() && report.counts.front().devices > w.cluster.devices ? "of " : "",
      w.cluster.name, with_thousands(w.global_batch), with_thousands(w.seq_len),
      with_thousands(o.configurations), with_thousands(o.splits), with_thousands(o.groups),
      with_thousands(o.priced), with_thousands(report.simulated),
      o.stopped ? fmt::format("; stopped after {} groups", with_thousands(o.groups_done)) : "");
  if (o.out_of_budget) {
    text += fmt::format(
        "one request takes {} prices at most: fix one of --tp, --pp, --ep and --micro-batch for "
        "the rest{}\n",
        with_thousands(SearchBudget::kMostPrices),
        report.front.empty() ? "" : ", or leave out --pareto");
  }
  return text;
}

std::string rejected_text(const SearchReport& report) {
  TextTable table({{"left out", Align::kRight}, {"because", Align::kLeft}});
  for (const SplitRejection& rejection : report.outcome.splits_rejected) {
    table.add_row({fmt::format("{} splits", with_thousands(rejection.splits)), rejection.reason});
  }
  for (size_t i = 0; i < kNumRejected; ++i) {
    if (report.outcome.rejected[i] == 0) continue;
    table.add_row({with_thousands(report.outcome.rejected[i]),
                   std::string(reason_of(static_cast<Rejected>(i)))});
  }
  return table.str();
}

// What a step costs on the cluster and on its parts, and at what price.
std::string cost_text(const SearchReport& report) {
  const Constant& price = report.workload.cluster.usd_per_device_hour;
  TextTable table({{"devices", Align::kRight},
                   {"step", Align::kRight},
                   {"device-seconds", Align::kRight},
                   {"USD", Align::kRight}});
  for (const DeviceCount& count : report.counts) {
    table.add_row({with_thousands(count.devices), seconds_text(count.step_s),
                   fmt::format("{:.4g}", count.device_seconds()),
                   price.value > 0
                       ? fmt::format("{:.4g}", count.device_seconds() / 3600 * price.value)
                       : "-"});
  }
  const std::string assumed =
      price.value > 0
          ? fmt::format("at {:g} USD for a device and hour ({}); --usd-per-hour gives another",
                        price.value, price.source)
          : "no price is known: --usd-per-hour gives one";
  return fmt::format("\nwhat a step costs, {}\n{}", assumed, table.str());
}

std::string misfit_text(const SearchReport& report) {
  if (report.outcome.stopped) return "stopped before a plan was found that fits\n";
  std::string text = report.runnable ? "nothing fits by the cost model" : "nothing fits";
  if (report.outcome.nearest.has_value()) {
    const Candidate& nearest = *report.outcome.nearest;
    text += fmt::format(
        ": the nearest plan ({}, micro-batch {}, {}, recompute {}) needs {} GiB of {} GiB",
        split_text(nearest.strategy), nearest.strategy.micro_batch, sharding_text(nearest.strategy),
        recompute_text_of(nearest.strategy), gibibytes(nearest.peak_bytes),
        gibibytes(report.limit_bytes));
  }
  text += "\n";
  if (!report.remedies.empty()) {
    text += fmt::format("it would fit with {}\n", fmt::join(report.remedies, ", or with "));
  }
  return text;
}

// What `tessera train` can run as it is, and what it lacks for the rest.
std::string engine_text(const SearchReport& report) {
  std::string lacks, text;
  for (const RankedStrategy& ranked : report.plans) {
    if (ranked.can_run()) continue;
    lacks += fmt::format("{:>3}  {}\n", ranked.number, ranked.file.lacks);
  }
  if (!lacks.empty()) text += "\nwhat tessera train lacks for them\n" + lacks;
  if (report.runnable.has_value()) {
    const RankedStrategy& ranked = *report.runnable;
    TextTable table = plan_table(true);
    add_plan(table, ranked.number, ranked.plan, &ranked.file);
    text +=
        fmt::format("\nthe best that tessera train can run\n{}why: {}\n", table.str(), ranked.why);
  } else if (report.lacks_room()) {
    text += "\n" + no_run_text(report);
  }
  return text;
}

}  // namespace

std::string to_text(const SearchReport& report) {
  std::string text;
  if (report.deadline.has_value()) {
    text = deadline_text(*report.deadline, report.workload.cluster.usd_per_device_hour) + "\n";
    if (report.deadline->devices == 0) return text;
  }
  text += head_text(report);
  if (report.plans.empty()) {
    return text + "\n" + misfit_text(report) + engine_text(report) + "\n" + rejected_text(report) +
           next_text(report);
  }
  TextTable table = plan_table(true);
  for (const RankedStrategy& ranked : report.plans) {
    add_plan(table, ranked.number, ranked.plan, &ranked.file);
  }
  text += fmt::format(
      "\n{}\nGiB of {} that a device has for tensors; train: GiB of tessera train's own Programs; "
      "kernels with the optimizer\n",
      table.str(), gibibytes(report.limit_bytes));
  if (!report.counts.empty()) text += cost_text(report);
  text += "\nwhy, beside what differs in one choice\n";
  for (size_t i = 0; i < report.plans.size(); ++i) {
    text += fmt::format("{:>3}  {}\n", i + 1, report.plans[i].why);
  }
  text += flags_text(report) + engine_text(report);
  if (!report.front.empty()) {
    TextTable front = plan_table(false);
    const std::vector<const SimulatedStrategy*> shown =
        readable(report.front, std::max<int64_t>(kFrontLines, report.top));
    for (size_t i = 0; i < shown.size(); ++i) add_plan(front, i + 1, *shown[i], nullptr);
    const std::string some =
        shown.size() == report.front.size()
            ? ""
            : fmt::format(", {} of {} (--json has all)", shown.size(), report.front.size());
    text += fmt::format("\ntime against memory: no plan is both faster and smaller{}\n{}", some,
                        front.str());
  }
  if (!report.sensitivities.empty()) {
    text += "\nwhat would change the best plan's step\n";
    for (const Sensitivity& s : report.sensitivities) {
      text += fmt::format("  {}: {}{}\n", s.change, change_text(s.change_pct),
                          s.moves.empty() ? "" : fmt::format(" (with {})", s.moves));
    }
  }
  return text + "\n" + rejected_text(report) + next_text(report);
}

}  // namespace tessera
