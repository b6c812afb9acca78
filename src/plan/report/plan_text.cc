#include "plan/report/plan_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text/noun.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "compile/pipeline/schedule/replay.h"
#include "plan/report/links.h"
#include "plan/report/misfit_text.h"
#include "plan/report/model_text.h"
#include "plan/report/training.h"
#include "spec/run_file/lanes.h"
#include "spec/run_file/validate.h"
#include "spec/run_file/validate_fp8.h"

namespace tessera {
namespace {

std::string cluster_text(const Plan& plan) {
  const Cluster& cluster = plan.step->cluster;
  const bool part = plan.step->cluster_devices > cluster.devices;
  const std::string of =
      plan.limit_of.empty() ? human_bytes(plan.reserved_bytes) + " reserved" : plan.limit_of;
  return fmt::format(
      "{}: {}{} x {}, {} for a rank ({})", cluster.name, with_thousands(cluster.devices),
      part ? fmt::format(" of its {}", with_thousands(plan.step->cluster_devices)) : "",
      cluster.device.name, human_bytes(plan.limit_bytes), of);
}

// Without prices the bubble is that of equal passes.
std::string pipeline_text(const Plan& plan) {
  std::string text = fmt::format("{}, {} stages", plan.schedule.name, plan.schedule.stages);
  if (plan.step) return text;
  const ScheduleFacts facts = facts_of(replay(plan.schedule));
  return text + fmt::format(", bubble {:.1f} % (forward 1, backward 2)", 100 * facts.bubble);
}

std::string precision_text(const Plan& plan) {
  if (plan.products == BlockProducts::kAsTrained) return std::string(plan.spec.train.dtype_name());
  return fmt::format(
      "fp8 in the products of blocks, else {}: {}", name_of(plan.spec.train.dtype),
      why_not_fp8(plan.spec).empty() ? "trained by the CPU alone so far" : "not yet trainable");
}

// "4: a replica adds up 2 or 1 of them"
std::string lanes_text(const RunSpec& spec) {
  const int64_t most = replica_batch(spec, 0).lanes.count;
  const int64_t least = replica_batch(spec, spec.parallel.replicas() - 1).lanes.count;
  return fmt::format(
      "{}: a replica adds up {} of them", spec.train.lanes,
      most == least ? fmt::format("{}", most) : fmt::format("{} or {}", most, least));
}

std::string head_text(const Plan& plan) {
  const RunSpec& spec = plan.spec;
  std::string text = fmt::format("model     {}\n", model_text(spec.model, plan.num_parameters));
  if (plan.step) text += fmt::format("cluster   {}\n", cluster_text(plan));
  text += fmt::format(
      "mesh      {}{}, ZeRO-{}, sequence parallel {}, recompute {}\n"
      "batch     {} of {} tokens = {} per rank x {} x {}, {}\n",
      mesh_text(plan.mesh),
      spec.parallel.ep > 1 ? fmt::format(", experts over {}", spec.parallel.ep) : "",
      spec.parallel.zero, spec.parallel.sequence_parallel ? "on" : "off", spec.parallel.recompute,
      count_of(spec.train.global_batch, "sequence"), with_thousands(spec.train.seq_len),
      with_thousands(spec.train.micro_batch), count_of(spec.parallel.replicas(), "replica"),
      count_of(accumulation(spec), "micro-batch"), precision_text(plan));
  if (spec.parallel.pp > 1) text += fmt::format("pipeline  {}\n", pipeline_text(plan));
  if (spec.train.lanes > 0) text += fmt::format("lanes     {}\n", lanes_text(spec));
  return text;
}

// What the ranks of one place in the pipeline hold: of its classes the heaviest.
struct PipelineRow {
  const PlannedClass* heaviest = nullptr;
  int64_t ranks = 0;
};

// Heaviest first; of equals the first in the pipeline.
std::vector<PipelineRow> pipeline_rows(const Plan& plan) {
  std::map<int, PipelineRow> by_rank;
  for (const PlannedClass& one : plan.classes) {
    PipelineRow& row = by_rank[one.pipeline_rank];
    row.ranks += one.ranks;
    if (row.heaviest == nullptr || one.total_bytes() > row.heaviest->total_bytes()) {
      row.heaviest = &one;
    }
  }
  std::vector<PipelineRow> rows;
  for (const auto& [rank, row] : by_rank) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [](const PipelineRow& a, const PipelineRow& b) {
    return a.heaviest->total_bytes() > b.heaviest->total_bytes();
  });
  return rows;
}

// "embed 0-7": the layers of a stage, and what else it holds.
std::string stage_text(const Plan& plan, int stage) {
  int64_t first = 0;
  for (int before = 0; before < stage; ++before) {
    first += plan.stage_blocks[static_cast<size_t>(before)];
  }
  const int64_t blocks = plan.stage_blocks[static_cast<size_t>(stage)];
  std::vector<std::string> parts;
  if (stage == 0) parts.emplace_back("embed");
  if (blocks == 1) parts.push_back(std::to_string(first));
  if (blocks > 1) parts.push_back(fmt::format("{}-{}", first, first + blocks - 1));
  if (stage + 1 == static_cast<int>(plan.stage_blocks.size())) parts.emplace_back("head");
  return fmt::format("{}", fmt::join(parts, " "));
}

// A text for each stage of a rank. Closed forms do not say what a stage holds.
template <typename Text>
std::string by_stage(const PlannedClass& one, const Text& text) {
  std::vector<std::string> parts;
  for (const auto& [stage, live] : one.in_flight) parts.push_back(text(stage, live));
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, " | "));
}

std::string memory_table(const Plan& plan) {
  std::vector<TextTable::Column> columns = {{"pp rank", Align::kRight},
                                            {"ranks", Align::kRight},
                                            {"layers", Align::kLeft},
                                            {"in flight", Align::kRight}};
  if (plan.schedule.asynchronous) columns.push_back({"versions", Align::kRight});
  for (const ArenaKind arena : kTrainingArenas) {
    columns.push_back({std::string(name_of(arena)), Align::kRight});
  }
  columns.push_back({"total", Align::kRight});
  columns.push_back({"of limit", Align::kRight});
  TextTable table(std::move(columns));
  for (const PipelineRow& row : pipeline_rows(plan)) {
    const PlannedClass& one = *row.heaviest;
    std::vector<std::string> cells = {
        std::to_string(one.pipeline_rank), with_thousands(row.ranks),
        by_stage(one, [&](int stage, int) { return stage_text(plan, stage); }),
        by_stage(one, [](int, int live) { return std::to_string(live); })};
    if (plan.schedule.asynchronous) cells.push_back(std::to_string(one.weight_versions));
    for (const ArenaKind arena : kTrainingArenas) {
      cells.push_back(human_bytes(one.memory[static_cast<size_t>(arena)]));
    }
    cells.push_back(human_bytes(one.total_bytes()));
    cells.push_back(percent_text(static_cast<double>(one.total_bytes()),
                                 static_cast<double>(plan.limit_bytes)));
    table.add_row(std::move(cells));
  }
  return table.str();
}

std::string heaviest_table(const Plan& plan) {
  const PlannedClass& one = plan.heaviest();
  TextTable table({{fmt::format("memory of rank {}", one.first_rank), Align::kLeft},
                   {"bytes", Align::kRight},
                   {"", Align::kRight}});
  for (const ArenaKind arena : kTrainingArenas) {
    const int64_t bytes = one.memory[static_cast<size_t>(arena)];
    table.add_row({std::string(name_of(arena)), with_thousands(bytes), human_bytes(bytes)});
  }
  table.add_rule();
  table.add_row({"total", with_thousands(one.total_bytes()), human_bytes(one.total_bytes())});
  return table.str();
}

// What the names of parts leave open.
std::string parts_text(const Plan& plan) {
  if (plan.source == PlanSource::kClosedForms) return "";
  const TrainSpec& train = plan.spec.train;
  std::string text = train.device == TrainDevice::kCuda
                         ? "workspace: of the kernels of a GPU\n"
                         : fmt::format("workspace: of the kernels of a CPU, {}\n",
                                       count_of(train.threads, "thread"));
  const bool one_stage = plan.schedule.stages <= plan.spec.parallel.pp;
  if (accumulation(plan.spec) == 1 && one_stage && !plan.schedule.asynchronous) {
    text +=
        "one micro-batch: gradients lie where activations were; activations: what those need "
        "beyond them\n";
  }
  return text;
}

// All places in the pipeline side by side, and the heaviest rank to the byte.
std::string memory_text(const Plan& plan) {
  return fmt::format("memory of a rank, heaviest stage first\n{}\n{}{}", memory_table(plan),
                     heaviest_table(plan), parts_text(plan));
}

// Numbers beyond what counts in whole are only seen in requests that make no sense.
std::string rounded(double value) {
  constexpr double kMostWhole = 9e15;
  if (value >= kMostWhole) return fmt::format("{:.3g}", value);
  return with_thousands(static_cast<int64_t>(value + 0.5));
}

// With one digit behind the point; small runs have rates that would show as 0.0 then.
std::string rate(double value) {
  return value >= 1 || value == 0 ? fmt::format("{:.1f}", value) : fmt::format("{:.2g}", value);
}

// "12.50 days"
std::string days_text(double days) { return fmt::format("{:.2f} days", days); }

std::string failures_text(const Plan& plan) {
  if (!plan.failures) return "";
  const FailurePlan& f = *plan.failures;
  const auto seconds = [](double s) { return text_of({s, Unit::kSeconds}); };
  const auto with = training_with_failures(plan);
  if (!with) {
    return fmt::format("with failures: never, for one comes every {} and a restart takes {}\n",
                       seconds(f.model.mtbf), seconds(f.model.restart));
  }
  std::string text = fmt::format("with failures: {}, {}", days_text(with->training.days),
                                 with_noun(rounded(with->training.device_hours), "device-hour"));
  if (with->training.usd > 0) text += fmt::format(", {} USD", rounded(with->training.usd));
  return text + fmt::format(
                    "; {}, one every {}; goodput {:.2f} % with a save every {} ({})\n",
                    with_noun(with->failures < 100 ? rate(with->failures) : rounded(with->failures),
                              "failure"),
                    seconds(f.model.mtbf), 100 * f.goodput, count_of(f.every, "step"),
                    seconds(f.interval_s));
}

std::string rates_text(const Plan& plan) {
  const Estimate& e = plan.step->estimate;
  std::string text = fmt::format(
      "{} tokens/s, {} TFLOP/s per device, MFU {} % (model arithmetic, causal attention halved), "
      "HFU {} % (with what is computed again)\n",
      rounded(e.tokens_per_s), rate(e.flops_per_device_s / 1e12), rate(100 * e.mfu),
      rate(100 * e.hfu));
  if (plan.tokens <= 0) return text + "days, device-hours and price: give --tokens N\n";
  const Training t = training_of(plan);
  text += fmt::format("{}: {}, {}, {}", count_of(plan.tokens, "token"),
                      with_noun(rounded(t.steps), "step"), days_text(t.days),
                      with_noun(rounded(t.device_hours), "device-hour"));
  if (t.usd > 0) {
    text += fmt::format(", {} USD at {:g} a device-hour", rounded(t.usd),
                        plan.step->cluster.usd_per_device_hour.value);
  }
  return text + "\n" + failures_text(plan);
}

// What the heaviest rank sends, by link; nothing without a cluster.
std::vector<LinkTraffic> links_of_traffic(const Plan& plan, const Traffic& traffic) {
  if (!plan.step) return {};
  return by_links(plan.step->cluster, plan.mesh, plan.schedule, plan.heaviest().first_rank,
                  traffic);
}

std::string traffic_table(const Plan& plan) {
  const PlannedClass& heaviest = plan.heaviest();
  std::vector<TextTable::Column> columns = {
      {fmt::format("sent by rank {} per step", heaviest.first_rank), Align::kLeft},
      {"collective", Align::kLeft},
      {"calls", Align::kRight},
      {"bytes", Align::kRight},
      {"", Align::kRight}};
  if (plan.step) columns.push_back({"link", Align::kLeft});
  TextTable table(std::move(columns));
  for (const Traffic& t : heaviest.traffic) {
    const auto add = [&](int64_t calls, int64_t bytes, std::string link) {
      std::vector<std::string> cells = {t.group, t.op, with_thousands(calls), with_thousands(bytes),
                                        human_bytes(bytes)};
      if (plan.step) cells.push_back(std::move(link));
      table.add_row(std::move(cells));
    };
    if (!plan.step) add(t.calls, t.bytes_sent, "");
    for (const LinkTraffic& part : links_of_traffic(plan, t)) {
      add(part.calls, part.bytes_sent, link_name(plan.step->cluster, part.level));
    }
  }
  return table.str();
}

// "nvlink 280.0 GiB, infiniband 18.7 GiB": what a rank sends, by the outermost link on the way.
std::string by_link(const Plan& plan) {
  const Cluster& cluster = plan.step->cluster;
  std::map<int, int64_t> bytes;
  for (const Traffic& t : plan.heaviest().traffic) {
    for (const LinkTraffic& part : links_of_traffic(plan, t)) bytes[part.level] += part.bytes_sent;
  }
  std::vector<std::string> parts;
  for (const auto& [level, sent] : bytes) {
    parts.push_back(fmt::format("{} {}", link_name(cluster, level), human_bytes(sent)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string axes_table(const PlannedStep& step) {
  TextTable table({{"axis", Align::kLeft},
                   {"outermost link", Align::kLeft},
                   {"busy", Align::kRight},
                   {"exposed", Align::kRight}});
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const auto a = static_cast<size_t>(axis);
    const AxisTraffic& traffic = step.estimate.traffic[a];
    if (traffic.bytes <= 0) continue;
    table.add_row({std::string(name_of(static_cast<CommAxis>(axis))),
                   link_name(step.cluster, traffic.level), short_seconds(traffic.busy_s),
                   short_seconds(step.estimate.time.exposed_s[a])});
  }
  return table.str();
}

std::string traffic_text(const Plan& plan) {
  if (plan.mesh.world() == 1) return "one rank: nothing is sent\n";
  const bool known = plan.source != PlanSource::kClosedForms;
  if (!plan.step) return traffic_table(plan);
  if (!known) return axes_table(*plan.step);
  return fmt::format("{}by link: {}\n\n{}", traffic_table(plan), by_link(plan),
                     axes_table(*plan.step));
}

std::string program_text(const Plan& plan) {
  const int first = plan.heaviest().first_rank;
  const auto rank = std::find_if(plan.ranks.begin(), plan.ranks.end(),
                                 [&](const PlannedRank& one) { return one.rank == first; });
  if (rank == plan.ranks.end() || rank->digest.empty()) return "";
  return fmt::format("\nrank {}: {} per step, program {}\n", first,
                     count_of(rank->instructions, "instruction"), rank->digest);
}

std::string guesses_text(const Plan& plan) {
  std::string text = plan.guesses.empty() ? "" : "\nguessed\n";
  for (const Guess& guess : plan.guesses) {
    text += fmt::format("  {}: {}\n", guess.what, guess.taken);
  }
  return text;
}

std::string fit_line(const Plan& plan, bool checked) {
  if (!plan.fits()) {
    return misfit_sentence(plan) + (checked ? "\n" : " (--check: what would make it fit)\n");
  }
  return fmt::format("fits: {} of a rank's {} are left\n",
                     human_bytes(plan.limit_bytes - plan.peak_bytes()),
                     human_bytes(plan.limit_bytes));
}

}  // namespace

std::string time_table(const StepTime& time) {
  TextTable table({{"step", Align::kLeft}, {"time", Align::kRight}, {"share", Align::kRight}});
  const auto add = [&](std::string what, double part) {
    table.add_row({std::move(what), short_seconds(part), percent_text(part, time.step_s)});
  };
  add("kernels of the busiest stage", time.compute_s);
  add("  forward", time.forward_s);
  add("  backward", time.backward_s());
  if (time.recompute_s > 0) add("    of which computed again", time.recompute_s);
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const double exposed = time.exposed_s[static_cast<size_t>(axis)];
    if (exposed <= 0) continue;
    add(fmt::format("{} communication that nothing hides", name_of(static_cast<CommAxis>(axis))),
        exposed);
  }
  if (time.bubble_s > 0) add("pipeline bubble", time.bubble_s);
  add("optimizer", time.optimizer_s);
  table.add_rule();
  add("step", time.step_s);
  return table.str();
}

std::string plan_text(const Plan& plan, bool checked) {
  std::string text =
      fmt::format("{}\n{}{}\n", head_text(plan), memory_text(plan), fit_line(plan, checked));
  if (plan.step) {
    text += fmt::format("{}\n{}\n", time_table(plan.step->estimate.time), rates_text(plan));
  }
  return text + traffic_text(plan) + program_text(plan) + guesses_text(plan);
}

}  // namespace tessera
