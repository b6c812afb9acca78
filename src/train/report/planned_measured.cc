#include "train/report/planned_measured.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/text.h"
#include "compile/program/program.h"

namespace tessera {
namespace {

// Sum over ranks of ranks[i][path...].
int64_t total(const nlohmann::ordered_json& report, const std::string& category) {
  int64_t sum = 0;
  for (const auto& rank : report.at("ranks")) {
    sum += rank.at("memory_bytes").at(category).get<int64_t>();
  }
  return sum;
}

struct Row {
  int64_t calls = 0;
  int64_t bytes = 0;
};
using TrafficRows = std::map<std::pair<std::string, std::string>, Row>;

TrafficRows total_traffic(const nlohmann::ordered_json& report) {
  TrafficRows rows;
  for (const auto& rank : report.at("ranks")) {
    for (const auto& entry : rank.at("traffic")) {
      Row& row = rows[{entry.at("group").get<std::string>(), entry.at("op").get<std::string>()}];
      row.calls += entry.at("calls").get<int64_t>();
      row.bytes += entry.at("bytes_sent").get<int64_t>();
    }
  }
  return rows;
}

void add_row(TextTable& table, const std::string& name, int64_t planned, int64_t seen) {
  table.add_row(
      {name, with_thousands(planned), with_thousands(seen), planned == seen ? "equal" : "DIFFERS"});
}

// What the engine asked for.
void add_memory(const nlohmann::ordered_json& plan, const nlohmann::ordered_json& measured,
                TextTable& table) {
  for (const ArenaKind arena : kTrainingArenas) {
    const std::string name(name_of(arena));
    add_row(table, "memory, " + name, total(plan, name), total(measured, name));
  }
  add_row(table, "memory, total", total(plan, "total"), total(measured, "total"));
}

void add_traffic(const nlohmann::ordered_json& plan, const nlohmann::ordered_json& measured,
                 TextTable& table) {
  const TrafficRows planned = total_traffic(plan);
  TrafficRows seen = total_traffic(measured);
  TrafficRows keys = planned;
  keys.insert(seen.begin(), seen.end());
  for (const auto& [key, unused] : keys) {
    const auto found = planned.find(key);
    const Row plan_row = found == planned.end() ? Row{} : found->second;
    const std::string name = key.first + " " + key.second;
    add_row(table, name + ", calls per step", plan_row.calls, seen[key].calls);
    add_row(table, name + ", bytes per step", plan_row.bytes, seen[key].bytes);
  }
}

// "12.3 MiB more than the arenas: code, threads, data"
std::string beside_arenas(int64_t arenas, int64_t counted, const std::string& what) {
  const int64_t more = counted - arenas;
  if (more < 0) return fmt::format("{} of the arenas were never touched", human_bytes(-more));
  return fmt::format("{} is not arenas: {}", human_bytes(more), what);
}

// What the operating system and the driver count. Arenas are part of it, on the device they are on.
void add_system_rows(const nlohmann::ordered_json& plan, const nlohmann::ordered_json& measured,
                     TextTable& table) {
  const int64_t arenas = total(plan, "total");
  const bool gpu = measured.contains("gpu_used_bytes");
  const auto resident = measured.at("resident_bytes").get<int64_t>();
  const int64_t on_host = gpu ? 0 : arenas;
  table.add_row({"resident, by the operating system", with_thousands(on_host),
                 with_thousands(resident),
                 beside_arenas(on_host, resident, "code, libraries, text, buffers of messages")});
  if (!gpu) return;
  const auto used = measured.at("gpu_used_bytes").get<int64_t>();
  table.add_row({"GPU memory used, by its driver", with_thousands(arenas), with_thousands(used),
                 beside_arenas(arenas, used, "libraries, their workspaces, the context")});
}

}  // namespace

bool plan_equals_measured(const nlohmann::ordered_json& plan,
                          const nlohmann::ordered_json& measured) {
  return plan.at("ranks") == measured.at("ranks");
}

std::string planned_measured_table(const nlohmann::ordered_json& plan,
                                   const nlohmann::ordered_json& measured) {
  const std::string ranks = count_of(plan.at("world").get<int64_t>(), "rank") + " together";
  TextTable table({{ranks, Align::kLeft},
                   {"planned", Align::kRight},
                   {"measured", Align::kRight},
                   {"", Align::kLeft}});
  add_memory(plan, measured, table);
  table.add_rule();
  add_traffic(plan, measured, table);
  if (measured.contains("resident_bytes")) {
    table.add_rule();
    add_system_rows(plan, measured, table);
  }
  return table.str() +
         (plan_equals_measured(plan, measured)
              ? "every rank: memory, traffic and executed program equal the plan\n"
              : "some rank DIFFERS from the plan: compare plan.json and summary.json\n");
}

}  // namespace tessera
