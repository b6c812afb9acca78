#include "api/presets.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "api/constant_json.h"
#include "api/fields.h"
#include "api/recipe.h"
#include "api/schema.h"
#include "base/error.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/engine/engine_keys.h"
#include "cost/hardware/catalogue.h"
#include "cost/hardware/facts.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/catalogue/model_size.h"
#include "spec/run_file/trainable.h"

namespace tessera {
namespace {

struct Row {
  std::string name;
  ModelEntry entry;
  ModelSize size;
};

std::vector<Row> rows() {
  std::vector<Row> result;
  for (const std::string_view name : model_names()) {
    ModelEntry entry = find_model(std::string(name));
    const ModelSize size = model_size(entry.model);
    result.push_back({std::string(name), std::move(entry), size});
  }
  return result;
}

std::string billions(int64_t count) {
  const auto value = static_cast<double>(count);
  return value < 1e9 ? fmt::format("{:.1f} M", value / 1e6) : fmt::format("{:.1f} B", value / 1e9);
}

std::string model_table() {
  TextTable text({{"model"},
                  {"parameters", Align::kRight},
                  {"active", Align::kRight},
                  {"layers", Align::kRight},
                  {"hidden", Align::kRight},
                  {"heads", Align::kRight},
                  {"train"},
                  {"source"}});
  for (const Row& row : rows()) {
    const ModelSpec& m = row.entry.model;
    text.add_row({row.name, billions(row.size.total),
                  m.experts > 0 ? billions(row.size.active) : "", fmt::format("{}", m.layers),
                  fmt::format("{}", m.hidden), fmt::format("{}/{}", m.heads, m.kv_heads),
                  untrainable_choice(m).empty() ? "yes" : "plan only", row.entry.source});
  }
  return text.str();
}

nlohmann::ordered_json model_json() {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const Row& row : rows()) {
    nlohmann::ordered_json model = {{"name", row.name},
                                    {"parameters", row.size.total},
                                    {"active_parameters", row.size.active},
                                    {"layers", row.entry.model.layers},
                                    {"hidden", row.entry.model.hidden},
                                    {"heads", row.entry.model.heads},
                                    {"kv_heads", row.entry.model.kv_heads},
                                    {"source", row.entry.source}};
    const std::string choice = untrainable_choice(row.entry.model);
    model["trainable"] = choice.empty();
    if (!choice.empty()) model["why_not"] = choice;
    models.push_back(std::move(model));
  }
  return models;
}

std::string device_table() {
  TextTable text({{"device"},
                  {"year", Align::kRight},
                  {"memory", Align::kRight},
                  {"16-bit peak", Align::kRight},
                  {"bandwidth", Align::kRight},
                  {"source of the peak"}});
  for (const std::string_view name : device_names()) {
    const DeviceSpec device = find_device(std::string(name));
    const Constant& peak = device.peak_flops[static_cast<size_t>(MathType::kF16)];
    const double year = facts_of_device(std::string(name)).year.value;
    text.add_row({device.name, year > 0 ? fmt::format("{:g}", year) : "-",
                  human_bytes(static_cast<int64_t>(device.memory_bytes.value)),
                  text_of(Quantity{peak.value, Unit::kFlopsPerSecond}),
                  text_of(Quantity{device.memory_bandwidth.value, Unit::kBytesPerSecond}),
                  peak.source});
  }
  return text.str();
}

nlohmann::ordered_json device_json() {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const std::string_view name : device_names()) {
    const DeviceSpec device = find_device(std::string(name));
    const Constant& peak = device.peak_flops[static_cast<size_t>(MathType::kF16)];
    devices.push_back({{"name", device.name},
                       {"memory_bytes", constant_json(device.memory_bytes)},
                       {"peak_flops", constant_json(peak)},
                       {"memory_bandwidth", constant_json(device.memory_bandwidth)},
                       {"kind", name_of(device.kind)},
                       {"multiprocessors", constant_json(device.multiprocessors)}});
    const DeviceFacts facts = facts_of_device(std::string(name));
    for (const DeviceFactKey& key : kDeviceFactKeys) {
      const Constant& fact = facts.*key.field;
      if (fact.value > 0) devices.back()[std::string(key.name)] = constant_json(fact);
    }
  }
  return devices;
}

// "nvlink 450 GB/s, infiniband 50 GB/s": innermost first, of a device in one direction.
std::string links_text(const Cluster& cluster) {
  std::string text;
  for (const LinkLevel& level : cluster.levels) {
    text += fmt::format("{}{} {:g} GB/s", text.empty() ? "" : ", ", level.name,
                        level.bandwidth.value / 1e9);
    if (level.oversubscription.value > 1) {
      text += fmt::format(" 1:{:g}", level.oversubscription.value);
    }
  }
  return text;
}

nlohmann::ordered_json links_json(const Cluster& cluster) {
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const LinkLevel& level : cluster.levels) {
    links.push_back({{"name", level.name},
                     {"devices", level.devices},
                     {"bandwidth", constant_json(level.bandwidth)},
                     {"latency_s", constant_json(level.latency_s)}});
  }
  return links;
}

std::string cluster_table() {
  TextTable text({{"cluster"},
                  {"device"},
                  {"devices", Align::kRight},
                  {"of a node", Align::kRight},
                  {"USD/hour", Align::kRight},
                  {"links of a device, one direction, innermost first"}});
  for (const std::string_view name : cluster_names()) {
    const Cluster cluster = find_cluster(std::string(name));
    text.add_row({std::string(name), cluster.device.name, with_thousands(cluster.devices),
                  with_thousands(cluster.node_devices()),
                  cluster.usd_per_device_hour.value > 0
                      ? fmt::format("{:g}", cluster.usd_per_device_hour.value)
                      : "-",
                  links_text(cluster)});
  }
  return text.str();
}

nlohmann::ordered_json cluster_json() {
  nlohmann::ordered_json clusters = nlohmann::ordered_json::array();
  for (const std::string_view name : cluster_names()) {
    const Cluster cluster = find_cluster(std::string(name));
    clusters.push_back({{"name", name},
                        {"device", cluster.device.name},
                        {"devices", cluster.devices},
                        {"node_devices", cluster.node_devices()},
                        {"links", links_json(cluster)}});
  }
  return clusters;
}

std::string engine_table() {
  std::string text;
  for (const std::string_view name : engine_names()) {
    const Engine engine = find_engine(std::string(name));
    TextTable table({{engine.name},
                     {"value", Align::kRight},
                     {"unit"},
                     {"provenance"},
                     {"what it is, and where it comes from"}});
    for (size_t i = 0; i < kEngineKeys.size(); ++i) {
      const EngineKey& key = kEngineKeys[i];
      const Constant& constant = engine.constants[i];
      table.add_row({std::string(key.name), fmt::format("{:.8g}", constant.value),
                     std::string(key.unit), std::string(name_of(constant.provenance)),
                     fmt::format("{}; {}", key.what, constant.source)});
    }
    text += (text.empty() ? "" : "\n") + table.str();
  }
  return text;
}

nlohmann::ordered_json engine_json() {
  nlohmann::ordered_json engines = nlohmann::ordered_json::array();
  for (const std::string_view name : engine_names()) {
    const Engine engine = find_engine(std::string(name));
    nlohmann::ordered_json constants = nlohmann::ordered_json::array();
    for (size_t i = 0; i < kEngineKeys.size(); ++i) {
      nlohmann::ordered_json constant = {{"name", kEngineKeys[i].name},
                                         {"unit", kEngineKeys[i].unit},
                                         {"what", kEngineKeys[i].what}};
      constant.update(constant_json(engine.constants[i]));
      constants.push_back(std::move(constant));
    }
    engines.push_back(
        {{"name", engine.name}, {"extends", engine.extends}, {"constants", std::move(constants)}});
  }
  return engines;
}

struct Kind {
  std::string_view name;
  std::string (*text)(const std::string& name);
  nlohmann::ordered_json (*json)(const std::string& name);
};
// Those that are listed whole.
template <std::string (*table)()>
std::string whole_text(const std::string&) {
  return table();
}
template <nlohmann::ordered_json (*list)()>
nlohmann::ordered_json whole_json(const std::string&) {
  return list();
}
constexpr std::array kKinds = {
    Kind{"models", whole_text<model_table>, whole_json<model_json>},
    Kind{"devices", whole_text<device_table>, whole_json<device_json>},
    Kind{"clusters", whole_text<cluster_table>, whole_json<cluster_json>},
    Kind{"engines", whole_text<engine_table>, whole_json<engine_json>},
    Kind{"recipes", recipes_text, recipes_json}};

const Kind& kind_of(const PresetsQuery& query) {
  const Kind* end = kKinds.data() + kKinds.size();
  const Kind* kind =
      std::find_if(kKinds.data(), end, [&](const Kind& one) { return one.name == query.kind; });
  TESSERA_CHECK(kind != end, "no kind of preset is called {}", query.kind);
  require_config(query.name.empty() || query.kind == "recipes",
                 "presets {} are listed whole: leave out '{}'", query.kind, query.name);
  return *kind;
}

}  // namespace

PresetsQuery presets_query(const nlohmann::json& request) {
  PresetsQuery query;
  Fields fields(request, "presets");
  fields.choice("kind", query.kind, kPresetKinds);
  fields.text("name", query.name);
  fields.finish();
  return query;
}

std::string presets_text(const PresetsQuery& query) { return kind_of(query).text(query.name); }

nlohmann::ordered_json presets_json(const PresetsQuery& query) {
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}, {"kind", "presets"}};
  json[query.kind] = kind_of(query).json(query.name);
  return json;
}

}  // namespace tessera
