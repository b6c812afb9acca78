#include "plan/run_plan_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "compile/pipeline/schedule/schedule.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr double kSecondsPerDay = 86400;

std::string seconds(double value) {
  if (value >= 1) return fmt::format("{:.3f} s", value);
  if (value >= 1e-3) return fmt::format("{:.3f} ms", value * 1e3);
  return fmt::format("{:.1f} us", value * 1e6);
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string percent(double part, double whole) {
  return fmt::format("{:.1f} %", 100 * share(part, whole));
}

std::string mesh_text(const Mesh& mesh) {
  std::string text;
  for (const Axis axis : kAllAxes) {
    if (mesh.size(axis) == 1) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " x ", name_of(axis), mesh.size(axis));
  }
  return text.empty() ? "1 rank" : fmt::format("{} ({} ranks)", text, with_thousands(mesh.world()));
}

// What the ranks of one place in the pipeline hold: of its classes the heaviest.
struct PipelineRow {
  const ClassPlan* heaviest = nullptr;
  int64_t ranks = 0;
};

// Heaviest first; of equals the first in the pipeline.
std::vector<PipelineRow> pipeline_rows(const ScalePlan& plan) {
  std::map<int, PipelineRow> by_rank;
  for (const ClassPlan& one : plan.classes) {
    PipelineRow& row = by_rank[one.ranks.pipeline_rank];
    row.ranks += one.ranks.ranks;
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

// "embed + 7", "8", "6 + head": the layers of a pipeline rank, over all its stages.
std::string held_text(const ScalePlan& plan, const ClassPlan& one) {
  std::string text;
  const auto add = [&](const std::string& part) {
    text += fmt::format("{}{}", text.empty() ? "" : " + ", part);
  };
  const auto last = static_cast<int>(plan.stage_blocks.size()) - 1;
  for (const auto& [stage, in_flight] : one.in_flight) {
    if (stage == 0) add("embed");
    if (plan.stage_blocks[static_cast<size_t>(stage)] > 0) {
      add(std::to_string(plan.stage_blocks[static_cast<size_t>(stage)]));
    }
    if (stage == last) add("head");
  }
  return text;
}

std::string in_flight_text(const ClassPlan& one) {
  std::string text;
  for (const auto& [stage, count] : one.in_flight) {
    text += fmt::format("{}{}", text.empty() ? "" : "+", count);
  }
  return text;
}

// Closed forms do not say what a stage holds.
std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

std::string memory_table(const RunPlan& plan) {
  std::vector<TextTable::Column> columns = {{"pp rank", Align::kRight},
                                            {"ranks", Align::kRight},
                                            {"layers", Align::kLeft},
                                            {"in flight", Align::kRight}};
  for (const ArenaKind arena : kAllArenas) {
    columns.push_back({std::string(name_of(arena)), Align::kRight});
  }
  columns.push_back({"total", Align::kRight});
  columns.push_back({"of limit", Align::kRight});
  TextTable table(std::move(columns));
  for (const PipelineRow& row : pipeline_rows(plan.ranks)) {
    const ClassPlan& one = *row.heaviest;
    std::vector<std::string> cells = {
        std::to_string(one.ranks.pipeline_rank), with_thousands(row.ranks),
        or_dash(held_text(plan.ranks, one)), or_dash(in_flight_text(one))};
    for (const int64_t bytes : one.memory) cells.push_back(human_bytes(bytes));
    cells.push_back(human_bytes(one.total_bytes()));
    cells.push_back(
        percent(static_cast<double>(one.total_bytes()), static_cast<double>(plan.limit_bytes)));
    table.add_row(std::move(cells));
  }
  return table.str();
}

std::string time_table(const Estimate& e) {
  TextTable table({{"step", Align::kLeft}, {"time", Align::kRight}, {"share", Align::kRight}});
  const auto add = [&](std::string what, double time) {
    table.add_row({std::move(what), seconds(time), percent(time, e.time.step_s)});
  };
  add("kernels of the busiest stage", e.time.compute_s);
  if (e.time.recompute_s > 0) add("  of which computed again", e.time.recompute_s);
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const double exposed = e.time.exposed_s[static_cast<size_t>(axis)];
    if (exposed <= 0) continue;
    add(fmt::format("{} communication that nothing hides", name_of(static_cast<CommAxis>(axis))),
        exposed);
  }
  if (e.time.bubble_s > 0) add("pipeline bubble", e.time.bubble_s);
  add("optimizer", e.time.optimizer_s);
  table.add_rule();
  add("step", e.time.step_s);
  return table.str();
}

std::string link_of(const Cluster& cluster, int level) {
  if (cluster.levels.empty()) return "-";
  const size_t last = cluster.levels.size() - 1;
  return cluster.levels[std::min(static_cast<size_t>(std::max(level, 0)), last)].name;
}

// The group that traffic names, without what it says of the ends of the pipeline.
AxisSet axes_named(std::string_view name) {
  const std::string_view plain = name.substr(0, name.find('.'));
  for (int bits = 0; bits < 1 << kNumAxes; ++bits) {
    AxisSet axes;
    for (const Axis axis : kAllAxes) {
      if ((bits >> static_cast<int>(axis) & 1) != 0) axes = axes.with(axis);
    }
    if (name_of(axes) == plain) return axes;
  }
  TESSERA_CHECK(false, "no group is called '{}'", name);
}

// The innermost level that joins all ranks of the group around `rank`.
int level_of(const RunPlan& plan, int rank, std::string_view group) {
  const std::vector<int> members = plan.ranks.mesh.peers(rank, axes_named(group));
  const auto [first, last] = std::minmax_element(members.begin(), members.end());
  for (size_t level = 0; level < plan.cluster.levels.size(); ++level) {
    const int64_t devices = plan.cluster.levels[level].devices;
    if (devices == 0 || *first / devices == *last / devices) return static_cast<int>(level);
  }
  return static_cast<int>(plan.cluster.levels.size()) - 1;
}

// "nvlink 280.0 GiB, infiniband 18.7 GiB": what a rank sends, by the outermost link on the way.
std::string by_link(const RunPlan& plan, const std::map<int, int64_t>& bytes) {
  std::string text;
  for (const auto& [level, sent] : bytes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", link_of(plan.cluster, level),
                        human_bytes(sent));
  }
  return text;
}

std::string traffic_tables(const RunPlan& plan) {
  const ClassPlan& heaviest = plan.ranks.heaviest();
  const int rank = static_cast<int>(heaviest.ranks.first_rank);
  std::map<int, int64_t> link_bytes;
  TextTable sent(
      {{fmt::format("sent by rank {} per step", heaviest.ranks.first_rank), Align::kLeft},
       {"collective", Align::kLeft},
       {"calls", Align::kRight},
       {"bytes", Align::kRight},
       {"", Align::kRight},
       {"link", Align::kLeft}});
  const std::vector<Traffic> rows = plan.ranks.traffic(heaviest);
  for (const Traffic& t : rows) {
    const int level = level_of(plan, rank, t.group);
    link_bytes[level] += t.bytes_sent;
    sent.add_row({t.group, t.op, with_thousands(t.calls), with_thousands(t.bytes_sent),
                  human_bytes(t.bytes_sent), link_of(plan.cluster, level)});
  }
  if (plan.ranks.mesh.world() == 1) return "one rank: nothing is sent\n";
  TextTable links({{"axis", Align::kLeft},
                   {"outermost link", Align::kLeft},
                   {"busy", Align::kRight},
                   {"exposed", Align::kRight}});
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const auto a = static_cast<size_t>(axis);
    const AxisTraffic& traffic = plan.estimate.traffic[a];
    if (traffic.bytes <= 0) continue;
    links.add_row({std::string(name_of(static_cast<CommAxis>(axis))),
                   link_of(plan.cluster, traffic.level), seconds(traffic.busy_s),
                   seconds(plan.estimate.time.exposed_s[a])});
  }
  if (rows.empty()) return links.str();
  return fmt::format("{}by link: {}\n\n{}", sent.str(), by_link(plan, link_bytes), links.str());
}

struct Training {
  double steps = 0, days = 0, device_hours = 0, usd = 0;
};

Training training_of(const RunPlan& plan, int64_t tokens) {
  const TrainSpec& train = plan.ranks.spec.train;
  const double per_step =
      static_cast<double>(train.global_batch) * static_cast<double>(train.seq_len);
  Training result;
  result.steps = static_cast<double>(tokens) / per_step;
  const double time = result.steps * plan.estimate.time.step_s;
  result.days = time / kSecondsPerDay;
  result.device_hours = time / 3600 * static_cast<double>(plan.cluster.devices);
  result.usd = result.device_hours * plan.cluster.usd_per_device_hour.value;
  return result;
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

std::string rates_text(const RunPlan& plan, int64_t tokens) {
  const Estimate& e = plan.estimate;
  std::string text = fmt::format(
      "{} tokens/s, {} TFLOP/s per device, MFU {} % (model arithmetic, causal attention halved), "
      "HFU {} % (with what is computed again)\n",
      rounded(e.tokens_per_s), rate(e.flops_per_device_s / 1e12), rate(100 * e.mfu),
      rate(100 * e.hfu));
  if (tokens <= 0) return text + "days, device-hours and price: give --tokens N\n";
  const Training t = training_of(plan, tokens);
  text += fmt::format("{} tokens: {} steps, {:.2f} days, {} device-hours", with_thousands(tokens),
                      rounded(t.steps), t.days, rounded(t.device_hours));
  if (t.usd > 0) {
    text += fmt::format(", {} USD at {:g} a device-hour", rounded(t.usd),
                        plan.cluster.usd_per_device_hour.value);
  }
  return text + "\n";
}

size_t largest_part(const ClassPlan& one) {
  return static_cast<size_t>(std::max_element(one.memory.begin(), one.memory.end()) -
                             one.memory.begin());
}

// Of the heaviest rank's place in the pipeline, as the table counts it: classes may differ in what
// they count for the gradient's norm, and need the same.
int64_t ranks_like(const ScalePlan& plan, const ClassPlan& one) {
  int64_t ranks = 0;
  for (const ClassPlan& other : plan.classes) {
    const bool alike = other.ranks.pipeline_rank == one.ranks.pipeline_rank &&
                       other.total_bytes() == one.total_bytes();
    if (alike) ranks += other.ranks.ranks;
  }
  return ranks;
}

std::string misfit_sentence(const RunPlan& plan) {
  const ClassPlan& worst = plan.ranks.heaviest();
  const size_t part = largest_part(worst);
  const int64_t ranks = ranks_like(plan.ranks, worst);
  return fmt::format(
      "does not fit: rank {} ({}{}) needs {} but has {}, {} too much; the largest part is {} "
      "with {}",
      worst.ranks.first_rank, plan.ranks.mesh.describe(worst.ranks.first_rank),
      ranks > 1 ? fmt::format("; {} ranks need as much", with_thousands(ranks)) : "",
      human_bytes(worst.total_bytes()), human_bytes(plan.limit_bytes),
      human_bytes(worst.total_bytes() - plan.limit_bytes), name_of(kAllArenas[part]),
      human_bytes(worst.memory[part]));
}

std::string fit_line(const RunPlan& plan, bool checked) {
  if (!plan.fits()) {
    return misfit_sentence(plan) + (checked ? "\n" : " (--check: what would make it fit)\n");
  }
  return fmt::format("fits: {} of a rank's {} are left\n",
                     human_bytes(plan.limit_bytes - plan.ranks.heaviest().total_bytes()),
                     human_bytes(plan.limit_bytes));
}

}  // namespace

std::string run_plan_text(const RunPlan& plan, int64_t tokens, bool checked) {
  const RunSpec& spec = plan.ranks.spec;
  const ModelSpec& m = spec.model;
  std::string text = fmt::format(
      "model     {}{} layers, hidden {}, heads {}/{}, vocab {}, {}: {} parameters\n"
      "cluster   {}: {}{} x {}, {} for a rank ({} reserved)\n"
      "mesh      {}{}, ZeRO-{}, sequence parallel {}, recompute {}\n"
      "batch     {} of {} tokens = {} per rank x {} x {}, {}\n",
      m.preset.empty() ? "" : m.preset + ", ", m.layers, m.hidden, m.heads, m.kv_heads, m.vocab,
      m.tied ? "tied" : "untied", with_thousands(plan.ranks.num_parameters), plan.cluster.name,
      with_thousands(plan.cluster.devices),
      plan.cluster_devices > plan.cluster.devices
          ? fmt::format(" of its {}", with_thousands(plan.cluster_devices))
          : "",
      plan.cluster.device.name, human_bytes(plan.limit_bytes), human_bytes(plan.reserved_bytes),
      mesh_text(plan.ranks.mesh),
      spec.parallel.ep > 1 ? fmt::format(", experts over {}", spec.parallel.ep) : "",
      spec.parallel.zero, spec.parallel.sequence_parallel ? "on" : "off", spec.parallel.recompute,
      count_of(spec.train.global_batch, "sequence"), with_thousands(spec.train.seq_len),
      with_thousands(spec.train.micro_batch), count_of(spec.parallel.replicas(), "replica"),
      count_of(accumulation(spec), "micro-batch"), name_of(spec.train.dtype));
  if (spec.parallel.pp > 1) {
    text += fmt::format("pipeline  {}, {} stages\n", plan.ranks.schedule.name,
                        plan.ranks.schedule.stages);
  }
  text += fmt::format("\nmemory of a rank, heaviest stage first\n{}{}\n{}\n{}\n{}",
                      memory_table(plan), fit_line(plan, checked), time_table(plan.estimate),
                      rates_text(plan, tokens), traffic_tables(plan));
  if (plan.guesses.empty()) return text;
  text += "\nguessed\n";
  for (const Guess& guess : plan.guesses) {
    text += fmt::format("  {}: {}\n", guess.what, guess.taken);
  }
  return text;
}

nlohmann::ordered_json run_plan_json(const RunPlan& plan, int64_t tokens) {
  nlohmann::ordered_json json;
  const Mesh& mesh = plan.ranks.mesh;
  json["world"] = mesh.world();
  for (const Axis axis : kAllAxes) {
    if (axis == Axis::kFsdpIn && mesh.size(axis) == 1) continue;
    json["mesh"][std::string(name_of(axis))] = mesh.size(axis);
  }
  json["parameters"] = plan.ranks.num_parameters;
  json["engine"] = plan.engine;
  json["cluster"] = {{"name", plan.cluster.name},       {"device", plan.cluster.device.name},
                     {"devices", plan.cluster.devices}, {"devices_in_all", plan.cluster_devices},
                     {"limit_bytes", plan.limit_bytes}, {"reserved_bytes", plan.reserved_bytes}};
  json["fits"] = plan.fits();
  json["classes"] = nlohmann::ordered_json::array();
  for (const ClassPlan& one : plan.ranks.classes) {
    nlohmann::ordered_json entry;
    entry["pipeline_rank"] = one.ranks.pipeline_rank;
    entry["first_rank"] = one.ranks.first_rank;
    entry["ranks"] = one.ranks.ranks;
    for (const auto& [stage, count] : one.in_flight) {
      entry["stages"].push_back({{"stage", stage},
                                 {"layers", plan.ranks.stage_blocks[static_cast<size_t>(stage)]},
                                 {"in_flight", count}});
    }
    for (const ArenaKind arena : kAllArenas) {
      entry["memory_bytes"][std::string(name_of(arena))] = one.memory[static_cast<size_t>(arena)];
    }
    entry["memory_bytes"]["total"] = one.total_bytes();
    entry["traffic"] = nlohmann::ordered_json::array();
    for (const Traffic& t : plan.ranks.traffic(one)) {
      entry["traffic"].push_back(
          {{"group", t.group}, {"op", t.op}, {"calls", t.calls}, {"bytes_sent", t.bytes_sent}});
    }
    json["classes"].push_back(std::move(entry));
  }
  const Estimate& e = plan.estimate;
  json["time"] = {{"step_s", e.time.step_s},
                  {"compute_s", e.time.compute_s},
                  {"recompute_s", e.time.recompute_s},
                  {"bubble_s", e.time.bubble_s},
                  {"optimizer_s", e.time.optimizer_s}};
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const auto a = static_cast<size_t>(axis);
    json["time"]["exposed_s"][std::string(name_of(static_cast<CommAxis>(axis)))] =
        e.time.exposed_s[a];
  }
  json["links"] = nlohmann::ordered_json::array();
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const AxisTraffic& traffic = e.traffic[static_cast<size_t>(axis)];
    if (traffic.bytes <= 0) continue;
    json["links"].push_back({{"axis", std::string(name_of(static_cast<CommAxis>(axis)))},
                             {"link", link_of(plan.cluster, traffic.level)},
                             {"bytes", traffic.bytes},
                             {"busy_s", traffic.busy_s}});
  }
  json["rates"] = {{"tokens_per_s", e.tokens_per_s},
                   {"tflops_per_device", e.flops_per_device_s / 1e12},
                   {"mfu", e.mfu},
                   {"hfu", e.hfu},
                   {"model_flops", e.model_flops},
                   {"hardware_flops", e.hardware_flops}};
  if (tokens > 0) {
    const Training t = training_of(plan, tokens);
    json["training"] = {
        {"tokens", tokens}, {"steps", t.steps}, {"days", t.days}, {"device_hours", t.device_hours}};
    if (t.usd > 0) json["training"]["usd"] = t.usd;
  }
  json["guesses"] = nlohmann::ordered_json::array();
  for (const Guess& guess : plan.guesses) {
    json["guesses"].push_back({{"what", guess.what}, {"taken", guess.taken}});
  }
  return json;
}

std::string set_flags(const FitChange& change) {
  return fmt::format("--set {}", fmt::join(change.settings, " --set "));
}

namespace {

std::string nothing_fits_text(const RunPlan& plan, const FitAdvice& advice, const FlagsOf& flags) {
  std::string text = "; no change of up to three settings makes it fit on these devices";
  if (advice.nearest) {
    const FitChange& nearest = *advice.nearest;
    text += fmt::format("; the nearest that was planned:\n  {}: {}, {} too much", flags(nearest),
                        human_bytes(nearest.peak_bytes),
                        human_bytes(nearest.peak_bytes - plan.limit_bytes));
  }
  if (!advice.on_devices) return text + "\nuse more devices, or a smaller model or sequence";
  return text + fmt::format("\n{} devices would do, with\n  {}: {} of {}", advice.devices,
                            flags(*advice.on_devices), human_bytes(advice.on_devices->peak_bytes),
                            human_bytes(plan.limit_bytes));
}

}  // namespace

std::string misfit_text(const RunPlan& plan, const FitAdvice& advice, const FlagsOf& flags) {
  std::string text = misfit_sentence(plan);
  if (advice.changes.empty()) return text + nothing_fits_text(plan, advice, flags);
  text += "; the cheapest changes that make it fit:";
  for (const FitChange& change : advice.changes) {
    text += fmt::format("\n  {}: {} of {}, step {} instead of {}", flags(change),
                        human_bytes(change.peak_bytes), human_bytes(plan.limit_bytes),
                        seconds(change.step_s), seconds(plan.estimate.time.step_s));
  }
  return text;
}

nlohmann::ordered_json advice_json(const RunPlan& plan, const FitAdvice& advice) {
  const auto entry = [](const FitChange& change) {
    return nlohmann::ordered_json{{"settings", change.settings},
                                  {"peak_bytes", change.peak_bytes},
                                  {"step_s", change.step_s}};
  };
  nlohmann::ordered_json json = {{"changes_that_fit", nlohmann::ordered_json::array()}};
  for (const FitChange& change : advice.changes) json["changes_that_fit"].push_back(entry(change));
  if (advice.nearest) {
    json["nearest_change"] = entry(*advice.nearest);
    json["nearest_change"]["bytes_over"] = advice.nearest->peak_bytes - plan.limit_bytes;
  }
  if (advice.on_devices) {
    json["more_devices"] = entry(*advice.on_devices);
    json["more_devices"]["devices"] = advice.devices;
  }
  return json;
}

}  // namespace tessera
