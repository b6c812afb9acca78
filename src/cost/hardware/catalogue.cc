#include "cost/hardware/catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/embedded.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cost/hardware/cluster_file.h"
#include "cost/hardware/constant_file.h"
#include "cost/hardware/device_keys.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

const CatalogueKind kDevices = {"devices", "device", embedded_devices};
const CatalogueKind kClusters = {"clusters", "cluster", embedded_clusters};

void read_types(const ConstantFile& reader, const toml::table& table, std::string_view key,
                std::array<Constant, kNumMathTypes>& target) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  const toml::table* types = node->as_table();
  require_config(types != nullptr, "{}: {} must be a table such as {{ f16 = 312e12 }}",
                 reader.at(node->source()), key);
  std::vector<std::string_view> known;
  for (int i = 0; i < kNumMathTypes; ++i) known.push_back(name_of(static_cast<MathType>(i)));
  reader.refuse_unknown(*types, known);
  for (size_t i = 0; i < known.size(); ++i) reader.read(*types, known[i], target[i]);
}

void read_kind(const ConstantFile& reader, const toml::table& table, DeviceKind& target) {
  const toml::node* node = table.get("kind");
  if (node == nullptr) return;
  const std::string name = reader.text(*node, "kind");
  bool found = false;
  for (int i = 0; i < kNumDeviceKinds; ++i) {
    if (name_of(static_cast<DeviceKind>(i)) != name) continue;
    target = static_cast<DeviceKind>(i);
    found = true;
  }
  require_config(found, "{}: kind must be cpu, gpu or tpu, got {}", reader.at(node->source()),
                 in_quotes(name));
}

// `table`: of a file of its own, or [device] of a cluster's.
DeviceSpec read_device(const ConstantFile& reader, const toml::table& table, ExtendsChain& chain) {
  std::vector<std::string_view> known = {
      "name", "kind", "extends", "peak_flops", "product_efficiency", "facts"};
  for (const DeviceKey& key : kDeviceKeys) known.push_back(key.name);
  reader.refuse_unknown(table, known);
  DeviceSpec device;
  std::string base;
  reader.read(table, "extends", base);
  if (!base.empty()) {
    chain.enter(base, reader.at(table.get("extends")->source()));
    const CatalogueSource source = find_source(kDevices, base, chain.read());
    const ConstantFile base_reader(source);
    device = read_device(base_reader, base_reader.table(), chain);
    device.extends = base;
  }
  reader.read(table, "name", device.name);
  read_kind(reader, table, device.kind);
  for (const DeviceKey& key : kDeviceKeys) reader.read(table, key.name, device.*key.field);
  read_types(reader, table, "peak_flops", device.peak_flops);
  read_types(reader, table, "product_efficiency", device.product_efficiency);
  return device;
}

LinkLevel read_level(const ConstantFile& reader, const toml::table& table) {
  constexpr std::array<std::string_view, 9> kKnown = {
      "name",       "devices",          "shape",           "bandwidth",      "latency_s",
      "efficiency", "oversubscription", "in_network_sums", "shared_adapters"};
  reader.refuse_unknown(table, kKnown);
  LinkLevel level;
  level.oversubscription = {1, Provenance::kDefault, "none is named"};
  level.efficiency = {1, Provenance::kDefault, "none is named"};
  reader.read(table, "name", level.name);
  reader.read(table, "devices", kMaxDevices, level.devices);
  reader.read(table, "bandwidth", level.bandwidth);
  reader.read(table, "latency_s", level.latency_s);
  reader.read(table, "efficiency", level.efficiency);
  reader.read(table, "oversubscription", level.oversubscription);
  reader.read(table, "in_network_sums", level.in_network_sums);
  reader.read(table, "shared_adapters", level.shared_adapters);
  if (const toml::node* node = table.get("shape")) {
    const std::string name = reader.text(*node, "shape");
    bool found = false;
    for (const LinkShape shape : {LinkShape::kSwitch, LinkShape::kTorus, LinkShape::kShared}) {
      if (name_of(shape) != name) continue;
      level.shape = shape;
      found = true;
    }
    require_config(found, "{}: shape must be switch, torus or shared, got {}",
                   reader.at(node->source()), in_quotes(name));
  }
  return level;
}

// As the entry is called, whatever letters it was asked for in.
std::string name_of_entry(const CatalogueSource& source, const std::string& asked) {
  if (asked.ends_with(".toml")) return asked;
  const std::string stem = source.file_name.substr(source.file_name.rfind('/') + 1);
  return stem.substr(0, stem.rfind('.'));
}

DeviceSpec named_device(const CatalogueSource& source, const std::string& name,
                        const FileReader& read) {
  ExtendsChain chain(read, name);
  const ConstantFile reader(source);
  DeviceSpec device = read_device(reader, reader.table(), chain);
  if (device.name.empty()) device.name = name_of_entry(source, name);
  check(device);
  return device;
}

// By name or path, or written out as [device].
void read_device_of(const ConstantFile& reader, const toml::table& table, const ExtendsChain& chain,
                    Cluster& cluster) {
  const toml::node* node = table.get("device");
  if (node == nullptr) return;
  if (const toml::table* own = node->as_table()) {
    ExtendsChain devices(chain.read(), reader.file_name());
    cluster.device = read_device(reader, *own, devices);
    if (cluster.device.name.empty()) cluster.device.name = reader.file_name();
    return;
  }
  const std::string name = reader.text(*node, "device");
  cluster.device = named_device(find_source(kDevices, name, chain.read()), name, chain.read());
}

// Files of calibrate from before devices had a kind say in [measured] alone what it was.
void use_measured_kind(const toml::table& table, Cluster& cluster) {
  const toml::node* node = table.get("device");
  const toml::table* own = node == nullptr ? nullptr : node->as_table();
  if (own == nullptr || own->contains("kind") || own->contains("extends")) return;
  const bool cpu = cluster.measured.device == TrainDevice::kCpu;
  cluster.device.kind = cpu ? DeviceKind::kCpu : DeviceKind::kGpu;
}

Cluster read_cluster(const ConstantFile& reader, ExtendsChain& chain) {
  const toml::table& table = reader.table();
  constexpr std::array<std::string_view, 9> kKnown = {"name",     "extends", "device",
                                                      "devices",  "levels",  "usd_per_device_hour",
                                                      "measured", "facts",   "storage_bandwidth"};
  reader.refuse_unknown(table, kKnown);
  Cluster cluster;
  std::string base;
  reader.read(table, "extends", base);
  if (!base.empty()) {
    chain.enter(base, reader.at(table.get("extends")->source()));
    const CatalogueSource source = find_source(kClusters, base, chain.read());
    cluster = read_cluster(ConstantFile(source), chain);
  }
  reader.read(table, "name", cluster.name);
  reader.read(table, "devices", kMaxDevices, cluster.devices);
  reader.read(table, "usd_per_device_hour", cluster.usd_per_device_hour);
  reader.read(table, "storage_bandwidth", cluster.storage_bandwidth);
  read_device_of(reader, table, chain, cluster);
  if (const toml::node* node = table.get("measured")) {
    require_config(node->is_table(), "{}: measured must be a table", reader.at(node->source()));
    cluster.measured = read_measured(*node->as_table(), reader.file_name());
    use_measured_kind(table, cluster);
  }
  if (const toml::node* node = table.get("levels")) {
    const toml::array* levels = node->as_array();
    require_config(levels != nullptr && levels->is_array_of_tables(),
                   "{}: levels must be written as [[levels]] tables", reader.at(node->source()));
    cluster.levels.clear();
    for (const toml::node& level : *levels) {
      cluster.levels.push_back(read_level(reader, *level.as_table()));
    }
  }
  return cluster;
}

// "h100-16384" -> {"h100", 16384}.
std::optional<std::pair<std::string, int64_t>> split_count(const std::string& name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string::npos || dash == 0 || dash + 1 == name.size()) return std::nullopt;
  int64_t count = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + dash + 1, end, count);
  if (error != std::errc() || stop != end) return std::nullopt;
  return std::pair{name.substr(0, dash), count};
}

// "8xrtx-4090" -> {"rtx-4090", 8}.
std::optional<std::pair<std::string, int64_t>> split_cards(const std::string& name) {
  int64_t count = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, count);
  if (error != std::errc() || stop == end || *stop != 'x' || stop + 1 == end) return std::nullopt;
  return std::pair{std::string(stop + 1, end), count};
}

Cluster named_cluster(const CatalogueSource& source, const std::string& name,
                      const FileReader& read) {
  ExtendsChain chain(read, name);
  Cluster cluster = read_cluster(ConstantFile(source), chain);
  if (cluster.name.empty()) cluster.name = name_of_entry(source, name);
  require_config(!cluster.device.name.empty(), "{}: device is missing: name one of {}",
                 source.file_name, fmt::join(device_names(), ", "));
  check(cluster);
  return cluster;
}

// Cards of a device that has a cluster of its name are that; others share the PCIe of one host.
Cluster cards_in_a_host(const std::pair<std::string, int64_t>& cards, const FileReader& read) {
  const auto& [device, count] = cards;
  if (const std::optional<CatalogueSource> source = look_up(kClusters, device, read)) {
    return with_devices(named_cluster(*source, device, read), count);
  }
  Cluster cluster = named_cluster(find_source(kClusters, "pc-4x24", read), "pc-4x24", read);
  cluster.device = named_device(find_source(kDevices, device, read), device, read);
  cluster.name = fmt::format("{}x{}", count, device);
  cluster.devices = count;
  cluster.usd_per_device_hour = {};
  cluster.levels.resize(1);
  cluster.levels[0].devices = count;
  check(cluster);
  return cluster;
}

// "h100-64" for "h100x64", "h100:64", "64 h100" and "h100-64gpus"; empty for anything else.
std::string count_meant(const std::string& name) {
  constexpr size_t kMostDigits = 8;
  std::string best;
  for (const std::string_view entry : cluster_names()) {
    std::string rest = lower_case(name);
    const size_t at = rest.find(entry);
    if (at == std::string::npos) continue;
    rest.erase(at, entry.size());
    for (const std::string_view word : {"gpus", "gpu", "devices"}) {
      if (rest.ends_with(word)) rest.erase(rest.size() - word.size());
    }
    std::erase_if(rest, [](char c) {
      return std::string_view(" x:*@_-,").find(c) != std::string_view::npos;
    });
    const bool digits =
        !rest.empty() && rest.size() <= kMostDigits &&
        std::all_of(rest.begin(), rest.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) best = fmt::format("{}-{}", entry, rest);
  }
  return best;
}

[[noreturn]] void refuse_cluster(const std::string& name) {
  const std::vector<std::string_view> models = model_names();
  const bool model = std::find(models.begin(), models.end(), lower_case(name)) != models.end();
  require_config(!model, "unknown cluster {}: it is a model, --model {}", in_quotes(name), name);
  const std::string counted = count_meant(name);
  require_config(counted.empty(), "unknown cluster {} (did you mean '{}'?)", in_quotes(name),
                 counted);
  const auto split = split_count(name);
  refuse_name(kClusters, split.has_value() ? split->first : name);
}

}  // namespace

std::vector<std::string_view> device_names() { return names_of(kDevices); }
std::vector<std::string_view> cluster_names() { return names_of(kClusters); }

DeviceSpec find_device(const std::string& name, const FileReader& read) {
  if (const std::optional<CatalogueSource> source = look_up(kDevices, name, read)) {
    return named_device(*source, name, read);
  }
  if (const std::optional<CatalogueSource> source = look_up(kClusters, name, read)) {
    return named_cluster(*source, name, read).device;
  }
  refuse_name(kDevices, name);
}

Cluster find_cluster(const std::string& name, const FileReader& read) {
  if (const std::optional<CatalogueSource> source = look_up(kClusters, name, read)) {
    return named_cluster(*source, name, read);
  }
  if (const auto cards = split_cards(name)) return cards_in_a_host(*cards, read);
  if (const auto split = split_count(name)) {
    if (const std::optional<CatalogueSource> source = look_up(kClusters, split->first, read)) {
      return with_devices(named_cluster(*source, split->first, read), split->second);
    }
    if (look_up(kDevices, split->first, read)) return cards_in_a_host(*split, read);
    refuse_cluster(name);
  }
  require_config(!look_up(kDevices, name, read),
                 "{} is a device: say how many there are, as in 8x{}", in_quotes(name), name);
  refuse_cluster(name);
}

Cluster with_devices(Cluster cluster, int64_t devices) {
  cluster.name = fmt::format("{}-{}", cluster.name, devices);
  cluster.devices = devices;
  check(cluster);
  return cluster;
}

DeviceSpec parse_device(std::string_view text, const std::string& file_name,
                        const FileReader& read) {
  return named_device({std::string(text), file_name}, file_name, read);
}

Cluster parse_cluster(std::string_view text, const std::string& file_name, const FileReader& read) {
  return named_cluster({std::string(text), file_name}, file_name, read);
}

}  // namespace tessera
