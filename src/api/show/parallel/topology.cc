#include "api/show/parallel/topology.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/chosen_split.h"
#include "api/constant_json.h"
#include "api/plan.h"
#include "api/show/run_fields.h"
#include "api/show/values.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/hardware/facts.h"
#include "plan/estimate_run.h"
#include "plan/report/links.h"
#include "plan/report/misfit_text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBitsOfByte = 8;

// One step from a device to the whole cluster.
struct ShownLevel {
  std::string name;
  int64_t devices = 1;   // of one unit
  std::string link;      // that joins them; empty: no level of links is its own
  double bandwidth = 0;  // of a device, one direction
  double oversubscription = 1;
  LinkShape shape = LinkShape::kSwitch;
};

// What a group of devices is called by its place among the levels and by its size.
std::string level_name(const Cluster& cluster, size_t level, int64_t devices) {
  constexpr int64_t kMostOfANode = 16;
  const bool last = level + 1 == cluster.levels.size();
  if (cluster.levels[level].shape == LinkShape::kTorus) return last ? "cluster" : "pod";
  if (level == 0 && devices > kMostOfANode) return "rack";
  if (level == 0) return "node";
  return last ? "cluster" : "pod";
}

std::vector<ShownLevel> levels_of(const Cluster& cluster, const ClusterFacts& facts) {
  std::vector<ShownLevel> levels = {{"device", 1, "memory", cluster.device.memory_bandwidth.value}};
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    const LinkLevel& link = cluster.levels[i];
    const int64_t devices =
        link.devices == 0 ? cluster.devices : std::min(link.devices, cluster.devices);
    const auto rack = static_cast<int64_t>(facts.rack_devices.value);
    if (rack > levels.back().devices && rack < devices) {
      levels.push_back({"rack", rack, link.name, link.bandwidth.value});
    }
    levels.push_back({level_name(cluster, i, devices), devices, link.name, link.bandwidth.value,
                      link.oversubscription.value, link.shape});
    if (devices == cluster.devices) break;
  }
  return levels;
}

std::vector<int64_t> torus_of(const ClusterFacts& facts) {
  std::vector<int64_t> sizes;
  for (const Constant* size : {&facts.torus_x, &facts.torus_y, &facts.torus_z}) {
    if (size->value > 0) sizes.push_back(static_cast<int64_t>(size->value));
  }
  return sizes;
}

int64_t product_of(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

// What can cross the middle of a level in one direction at a time. A torus is cut across its
// longest side, where two rings' worth of links cross; not known where its sides are not.
std::optional<double> bisection(const ShownLevel& level, const std::vector<int64_t>& torus) {
  if (level.devices < 2) return std::nullopt;
  if (level.shape == LinkShape::kShared) return level.bandwidth;
  if (level.shape == LinkShape::kSwitch) {
    return static_cast<double>(level.devices / 2) * level.bandwidth / level.oversubscription;
  }
  if (torus.empty() || product_of(torus) != level.devices) return std::nullopt;
  const int64_t longest = *std::max_element(torus.begin(), torus.end());
  const double of_link = level.bandwidth / (2 * static_cast<double>(torus.size()));
  return 2 * static_cast<double>(level.devices / longest) * of_link;
}

std::string rate(double bytes) { return text_of(Quantity{bytes, Unit::kBytesPerSecond}); }

std::string level_text(const ShownLevel& level) {
  if (level.name == "device") {
    return fmt::format("its memory gives {}", rate(level.bandwidth));
  }
  std::string text =
      fmt::format("{} joined by {}: {} of each, one direction", count_of(level.devices, "device"),
                  level.link, rate(level.bandwidth));
  if (level.oversubscription > 1) {
    text += fmt::format(", a {}th of it when all talk at once", level.oversubscription);
  }
  return text;
}

Json levels_json(const Cluster& cluster, const ClusterFacts& facts) {
  Json json = Json::array();
  const double memory = cluster.device.memory_bytes.value;
  for (const ShownLevel& level : levels_of(cluster, facts)) {
    const double both = level.name == "device" ? level.bandwidth : 2 * level.bandwidth;
    Json one = {{"name", level.name},
                {"units", (cluster.devices + level.devices - 1) / level.devices},
                {"devices", level.devices},
                {"link", level.link},
                {"shape", level.name == "device" ? "memory" : name_of(level.shape)},
                {"bandwidth_bytes_s", level.bandwidth},
                {"bandwidth_both_bytes_s", both},
                {"gbit_s", level.bandwidth * kBitsOfByte / 1e9},
                {"memory_bytes", memory * static_cast<double>(level.devices)},
                {"oversubscription", level.oversubscription},
                {"text", level_text(level)}};
    if (const auto across = bisection(level, torus_of(facts))) one["bisection_bytes_s"] = *across;
    json.push_back(std::move(one));
  }
  return json;
}

Json device_json(const DeviceSpec& device, const FileReader& read) {
  Json json = {{"name", device.name},
               {"kind", name_of(device.kind)},
               {"memory_bytes", constant_json(device.memory_bytes)},
               {"memory_bandwidth", constant_json(device.memory_bandwidth)},
               {"multiprocessors", constant_json(device.multiprocessors)},
               {"peak_flops", Json::object()}};
  for (int i = 0; i < kNumMathTypes; ++i) {
    const Constant& peak = device.peak_flops[static_cast<size_t>(i)];
    if (peak.value == 0) continue;
    json["peak_flops"][std::string(name_of(static_cast<MathType>(i)))] = constant_json(peak);
  }
  const DeviceFacts facts = facts_of_device(device.name, read);
  for (const DeviceFactKey& key : kDeviceFactKeys) {
    const Constant& fact = facts.*key.field;
    if (fact.value > 0) json[std::string(key.name)] = constant_json(fact);
  }
  return json;
}

bool names_a_run(const nlohmann::json& request) {
  return request.contains("model") || request.contains("recipe") || request.contains("run_file");
}

// As "plan" prices the run: bytes of the busiest rank in a step.
Json traffic_json(const PlanQuery& query, const Surroundings& around) {
  const PlanRequest plan = plan_request(query, around);
  const RunEstimate priced = estimate_run(plan.spec, *plan.cluster, *plan.engine, plan.products);
  const Cluster& used = priced.run.workload.cluster;
  Json json = Json::array();
  for (size_t axis = 0; axis < kNumCommAxes; ++axis) {
    const AxisTraffic& traffic = priced.estimate.traffic[axis];
    if (traffic.bytes == 0 && traffic.busy_s == 0) continue;
    json.push_back({{"axis", name_of(static_cast<CommAxis>(axis))},
                    {"level", traffic.level},
                    {"link", link_name(used, traffic.level)},
                    {"bytes", traffic.bytes},
                    {"busy_s", traffic.busy_s},
                    {"exposed_s", priced.estimate.time.exposed_s[axis]}});
  }
  return json;
}

Json families_json() {
  Json json = Json::array();
  for (const std::string_view name : cluster_names()) {
    const Cluster cluster = find_cluster(std::string(name));
    json.push_back({{"name", name},
                    {"device", cluster.device.name},
                    {"devices", cluster.devices},
                    {"node_devices", cluster.node_devices()},
                    {"levels", cluster.levels.size()}});
  }
  return {{"families", std::move(json)}};
}

Json topology_json(const ShowValues& values, const Surroundings& around) {
  const PlanQuery query = plan_query(values.request());
  const std::string name = names_a_run(values.request())
                               ? plan_request(query, around).cluster.value_or(Cluster()).name
                               : query.split.cluster;
  if (name.empty()) return families_json();
  const Cluster cluster = find_cluster(name, around.read);
  const ClusterFacts facts = facts_of_cluster(name, around.read);
  Json json = {{"cluster", cluster.name},
               {"devices", cluster.devices},
               {"node_devices", cluster.node_devices()}};
  json["levels"] = levels_json(cluster, facts);
  json["device"] = device_json(cluster.device, around.read);
  const Json& outermost = json["levels"].back();
  if (outermost.contains("bisection_bytes_s")) {
    json["bisection_bytes_s"] = outermost.at("bisection_bytes_s");
  }
  if (facts.rails.value > 0) json["rails"] = constant_json(facts.rails);
  const std::vector<int64_t> torus = torus_of(facts);
  if (!torus.empty() && product_of(torus) == cluster.devices) json["torus"] = torus;
  if (names_a_run(values.request())) json["traffic"] = traffic_json(query, around);
  return json;
}

std::string topology_text(const ShowValues& values, const Surroundings& around) {
  const Json json = topology_json(values, around);
  if (json.contains("families")) {
    TextTable table({{"cluster"}, {"device"}, {"devices", Align::kRight}});
    for (const Json& one : json.at("families")) {
      table.add_row({one.at("name"), one.at("device"), one.at("devices").dump()});
    }
    return table.str();
  }
  TextTable table({{"level"},
                   {"units", Align::kRight},
                   {"devices", Align::kRight},
                   {"link"},
                   {"one direction", Align::kRight},
                   {"across its middle", Align::kRight}});
  for (const Json& level : json.at("levels")) {
    table.add_row({level.at("name"), level.at("units").dump(), level.at("devices").dump(),
                   level.at("link"), rate(level.at("bandwidth_bytes_s")),
                   level.contains("bisection_bytes_s") ? rate(level.at("bisection_bytes_s")) : ""});
  }
  std::string text = table.str();
  if (!json.contains("traffic")) return text;
  TextTable sent({{"axis"},
                  {"link"},
                  {"bytes", Align::kRight},
                  {"busy", Align::kRight},
                  {"exposed", Align::kRight}});
  for (const Json& one : json.at("traffic")) {
    sent.add_row({one.at("axis"), one.at("link"),
                  human_bytes(static_cast<int64_t>(one.at("bytes").get<double>())),
                  short_seconds(one.at("busy_s")), short_seconds(one.at("exposed_s"))});
  }
  return text + "\n" + sent.str();
}

}  // namespace

ShowTopic topology_topic() {
  static const std::vector<ShowField> fields = with_run_fields({});
  return {"topology",
          "A cluster from a device to all of it, and what a run sends over its links.",
          "--cluster llama3-24k",
          fields,
          topology_json,
          for_terminals(topology_text)};
}

}  // namespace tessera
