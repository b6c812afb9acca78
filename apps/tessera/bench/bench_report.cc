#include "bench/bench_report.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text/fit_width.h"
#include "base/text/text.h"
#include "collective/schedule.h"

namespace tessera {
namespace {

constexpr double kGiga = 1e9;

double algorithm_bandwidth(const BenchCase& bench, const BenchRow& row) {
  return static_cast<double>(bench.array_bytes()) / row.seconds;
}

// The least time that the machine's memory needs, where memory is what counts.
std::optional<double> limit_seconds(const SweepReport& report, const BenchCase& bench) {
  const MemoryWork work = memory_work(bench);
  if (!report.limit || !is_memory_bound(work)) return std::nullopt;
  return static_cast<double>(work.moved_bytes()) / report.limit->rate();
}

std::string_view ranks_are(BenchBackend backend) {
  switch (backend) {
    case BenchBackend::kLocal:
      return "threads (local)";
    case BenchBackend::kShm:
      return "processes over shared memory (shm)";
    case BenchBackend::kMpi:
      return "processes over MPI (mpi)";
    case BenchBackend::kNccl:
      return "processes with a GPU each (nccl)";
  }
  return "";
}

std::string microseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e6); }

std::string limit_line(const SweepReport& report) {
  const MemoryWork work = memory_work(report.cases.back());
  if (!is_memory_bound(work)) {
    return fmt::format("# memory limit: none, the arrays fit in a cache of {}\n",
                       human_bytes(largest_cache_bytes()));
  }
  if (!report.limit) return "# memory limit: not measured\n";
  return fmt::format(
      "# memory limit: {:.1f} GB/s before, {:.1f} GB/s after (arrays: {} read, {} written{})\n",
      report.limit->before / kGiga, report.limit->after / kGiga, work.sources, work.targets,
      work.in_place ? ", in place" : "");
}

using SweepCells = std::array<std::string, 11>;
constexpr std::array<std::string_view, 11> kSweepHeads = {
    "size",       "count",      "type",   "redop",    "root",    "time us",
    "algbw GB/s", "busbw GB/s", "#wrong", "limit us", "of limit"};

std::vector<SweepCells> sweep_cells(const SweepReport& report) {
  std::vector<SweepCells> rows;
  for (const BenchRow& row : report.rows) {
    const BenchCase& bench = report.cases[row.index];
    const double bandwidth = algorithm_bandwidth(bench, row) / kGiga;
    const std::optional<double> limit = limit_seconds(report, bench);
    rows.push_back({std::to_string(bench.array_bytes()), std::to_string(bench.count),
                    std::string(name_of(bench.dtype)),
                    std::string(reduces(bench.op) ? name_of(bench.reduce) : "none"),
                    std::to_string(has_root(bench.op) ? kBenchRoot : -1), microseconds(row.seconds),
                    fmt::format("{:.2f}", bandwidth),
                    fmt::format("{:.2f}", bandwidth * bus_factor(bench.op, bench.ranks)),
                    std::to_string(row.wrong), limit ? microseconds(*limit) : "-",
                    limit ? fmt::format("{:.2f}", *limit / row.seconds) : "-"});
  }
  return rows;
}

// As nccl-tests prints them.
std::string side_by_side(const SweepReport& report) {
  constexpr std::array<int, 11> kWidths = {12, 12, 6, 6, 5, 12, 11, 11, 7, 12, 9};
  const auto line = [&](const auto& cells) {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c) {
      text += fmt::format("{}{:>{}}", c > 0 ? " " : "", cells[c], kWidths[c]);
    }
    return text + "\n";
  };
  std::string text = line(kSweepHeads);
  text.front() = '#';
  for (const SweepCells& row : sweep_cells(report)) text += line(row);
  return text;
}

// For a terminal that is too narrow for that: what was measured first, then what was asked for.
std::string stackable(const SweepReport& report) {
  constexpr std::array<size_t, 11> kOrder = {0, 5, 6, 7, 10, 9, 8, 1, 2, 3, 4};
  std::vector<TextTable::Column> heads;
  for (const size_t c : kOrder) heads.push_back({std::string(kSweepHeads[c]), Align::kRight});
  TextTable table(std::move(heads));
  for (const SweepCells& row : sweep_cells(report)) {
    std::vector<std::string> cells;
    for (const size_t c : kOrder) cells.push_back(row[c]);
    table.add_row(std::move(cells));
  }
  return table.str();
}

}  // namespace

int64_t SweepReport::wrong() const {
  int64_t sum = 0;
  for (const BenchRow& row : rows) sum += row.wrong;
  return sum;
}

std::string sweep_table(const BenchSuite& plan, const SweepReport& report, size_t columns) {
  const BenchCase& any = report.cases.front();
  const std::string head =
      fmt::format("# {}, {} ranks: {}, {}, algorithm {}{}\n", name_of(report.op), report.ranks,
                  ranks_are(plan.backend), any.in_place ? "in place" : "out of place",
                  name_of(plan.algorithm), plan.sweep.touch ? ", input rewritten" : "") +
      limit_line(report);
  const std::string rows = side_by_side(report);
  const bool fits = columns == 0 || rows.find('\n') <= columns;
  return fits ? head + rows : fit_width(head + stackable(report), columns);
}

std::string sweep_tsv(const BenchSuite& plan, const SweepReport& report) {
  std::string text;
  for (const BenchRow& row : report.rows) {
    const BenchCase& bench = report.cases[row.index];
    const double bandwidth = algorithm_bandwidth(bench, row) / kGiga;
    text +=
        fmt::format("own{}\t{}\t{}\t{}\t{:.2f}\t{:.3f}\t{:.3f}\n", plan.sweep.touch ? "+touch" : "",
                    name_of(report.op), report.ranks, bench.array_bytes(), row.seconds * 1e6,
                    bandwidth, bandwidth * bus_factor(bench.op, bench.ranks));
  }
  return text;
}

nlohmann::ordered_json suite_json(const BenchSuite& plan) {
  return {{"backend", name_of(plan.backend)},    {"algorithm", name_of(plan.algorithm)},
          {"dtype", name_of(plan.dtype)},        {"reduce", name_of(plan.reduce)},
          {"budget_s", plan.sweep.budget_s},     {"touch", plan.sweep.touch},
          {"cache_bytes", largest_cache_bytes()}};
}

nlohmann::ordered_json sweep_json(const SweepReport& report) {
  nlohmann::ordered_json json;
  json["op"] = name_of(report.op);
  json["ranks"] = report.ranks;
  json["in_place"] = report.cases.front().in_place;
  if (report.limit) {
    const MemoryWork work = memory_work(report.cases.front());
    json["limit"] = {{"read", work.sources},
                     {"written", work.targets},
                     {"before_bytes_per_s", report.limit->before},
                     {"after_bytes_per_s", report.limit->after}};
  } else {
    json["limit"] = nullptr;
  }
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : report.rows) {
    const BenchCase& bench = report.cases[row.index];
    const double bandwidth = algorithm_bandwidth(bench, row);
    const std::optional<double> limit = limit_seconds(report, bench);
    nlohmann::ordered_json cells = {
        {"bytes", bench.array_bytes()},
        {"count", bench.count},
        {"root", has_root(bench.op) ? kBenchRoot : -1},
        {"seconds", row.seconds},
        {"fastest_s", row.fastest_s},
        {"slowest_s", row.slowest_s},
        {"calls_per_sample", row.calls_per_sample},
        {"samples", row.samples},
        {"algbw_bytes_per_s", bandwidth},
        {"busbw_bytes_per_s", bandwidth * bus_factor(bench.op, bench.ranks)},
        {"wrong", row.wrong}};
    cells["limit_s"] = limit ? nlohmann::ordered_json(*limit) : nullptr;
    cells["of_limit"] = limit ? nlohmann::ordered_json(*limit / row.seconds) : nullptr;
    json["rows"].push_back(std::move(cells));
  }
  return json;
}

std::string algorithm_table(const BenchSuite& plan) {
  TextTable table({{"op"}, {"algorithms"}});
  for (const CollectiveOp op : plan.ops) {
    std::string names = "auto";
    for (const Algorithm algorithm : algorithms_of(plan.backend, op)) {
      names += fmt::format(", {}", name_of(algorithm));
    }
    table.add_row({std::string(name_of(op)), names});
  }
  return fmt::format("# backend {}\n{}", name_of(plan.backend), table.str());
}

std::string choice_table(const BenchSuite& plan) {
  TextTable table({{"op"},
                   {"ranks", Align::kRight},
                   {"bytes", Align::kRight},
                   {"algorithm"},
                   {"sums in order of rank"}});
  for (const int ranks : plan.ranks) {
    for (const CollectiveOp op : plan.ops) {
      for (const BenchCase& bench : plan.cases(op, ranks)) {
        const Algorithm chosen = choose_algorithm(op, bench.count * size_bytes(bench.dtype), ranks);
        table.add_row({std::string(name_of(op)), std::to_string(ranks),
                       std::to_string(bench.array_bytes()), std::string(name_of(chosen)),
                       !reduces(op)                  ? "-"
                       : promises_rank_order(chosen) ? "yes"
                                                     : "no"});
      }
    }
  }
  return table.str();
}

}  // namespace tessera
