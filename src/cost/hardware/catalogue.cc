#include "cost/hardware/catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/embedded.h"
#include "base/error.h"
#include "base/text.h"
#include "base/toml.h"
#include "cost/hardware/cluster_file.h"
#include "cost/hardware/device_keys.h"
#include "spec/toml_depth.h"

namespace tessera {
namespace {

constexpr std::string_view kDevices = "devices";
constexpr std::string_view kClusters = "clusters";
constexpr std::string_view kSuffix = ".toml";
constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxExtends = 16;

std::span<const EmbeddedFile> files_of(std::string_view kind) {
  return kind == kDevices ? embedded_devices() : embedded_clusters();
}

std::vector<std::string_view> names_of_kind(std::string_view kind) {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : files_of(kind)) names.push_back(file.name);
  return names;
}

struct Source {
  std::string text;
  std::string file_name;
};

std::optional<Source> find_source(std::string_view kind, const std::string& name,
                                  const FileReader& read) {
  if (name.ends_with(kSuffix)) {
    require_config(read != nullptr, "{} is a file, and no file can be read here: name an entry",
                   in_quotes(name));
    return Source{read(name), name};
  }
  for (const EmbeddedFile& file : files_of(kind)) {
    if (file.name == name) {
      return Source{std::string(file.text), fmt::format("{}/{}{}", kind, name, kSuffix)};
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse_name(std::string_view kind, std::string_view what,
                              const std::string& name) {
  const std::vector<std::string_view> known = names_of_kind(kind);
  const std::string nearest = nearest_name(name, known);
  throw ConfigError(fmt::format(
      "unknown {} {}{}; known: {}; or give a file that ends in .toml", what, in_quotes(name),
      nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
      fmt::join(known, ", ")));
}

// One file, with the place of a node for messages.
class Reader {
 public:
  Reader(std::string_view text, std::string file_name) : file_name_(std::move(file_name)) {
    require_config(text.size() <= kMaxFileBytes, "{}: {} bytes are more than {}", file_name_,
                   text.size(), kMaxFileBytes);
    refuse_deep_keys(text, file_name_);
    try {
      table_ = toml::parse(text, file_name_);
    } catch (const toml::parse_error& error) {
      throw ConfigError(fmt::format("{}: {}", at(error.source()), error.description()));
    }
  }

  [[nodiscard]] const toml::table& table() const { return table_; }
  [[nodiscard]] const std::string& file_name() const { return file_name_; }

  [[nodiscard]] std::string at(const toml::source_region& region) const {
    return fmt::format("{}:{}:{}", file_name_, region.begin.line, region.begin.column);
  }

  void refuse_unknown(const toml::table& table, std::span<const std::string_view> known) const {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      throw ConfigError(fmt::format("{}: unknown key {}; {}", at(key.source()), in_quotes(name),
                                    suggestion(name, known, "keys")));
    }
  }

  [[nodiscard]] double number(const toml::node& node, std::string_view key) const {
    const std::optional<double> value = node.value<double>();
    require_config(value.has_value() && *value == *value && *value <= 1e300 && *value >= -1e300,
                   "{}: {} must be a number", at(node.source()), key);
    return *value;
  }

  // 5, or [5, "vendor", "data sheet"].
  void read(const toml::table& table, std::string_view key, Constant& target) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    const auto* array = node->as_array();
    if (array == nullptr) {
      target = {number(*node, key), Provenance::kDefault, file_name_};
      return;
    }
    require_config(array->size() == 3,
                   "{}: {} must be a number or [number, \"vendor\", \"source\"]",
                   at(node->source()), key);
    target.value = number(*array->get(0), key);
    target.provenance = provenance(*array->get(1), key);
    target.source = text(*array->get(2), key);
  }

  void read(const toml::table& table, std::string_view key, std::string& target) const {
    if (const toml::node* node = table.get(key)) target = text(*node, key);
  }

  void read(const toml::table& table, std::string_view key, bool& target) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    require_config(node->is_boolean(), "{}: {} must be true or false", at(node->source()), key);
    target = node->as_boolean()->get();
  }

  void read(const toml::table& table, std::string_view key, int64_t& target) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    require_config(node->is_integer(), "{}: {} must be a whole number", at(node->source()), key);
    target = node->as_integer()->get();
    require_config(target >= 0 && target <= kMaxDevices, "{}: {} must be from 0 to {}, got {}",
                   at(node->source()), key, kMaxDevices, target);
  }

  [[nodiscard]] std::string text(const toml::node& node, std::string_view key) const {
    require_config(node.is_string(), "{}: {} must be a text in quotes", at(node.source()), key);
    return node.as_string()->get();
  }

 private:
  [[nodiscard]] Provenance provenance(const toml::node& node, std::string_view key) const {
    const std::string name = text(node, key);
    constexpr std::array kAll = {Provenance::kVendor, Provenance::kMeasured, Provenance::kFitted,
                                 Provenance::kDefault};
    for (const Provenance candidate : kAll) {
      if (name_of(candidate) == name) return candidate;
    }
    throw ConfigError(
        fmt::format("{}: {}: {} is not a provenance; use vendor, measured, fitted or default",
                    at(node.source()), key, in_quotes(name)));
  }

  std::string file_name_;
  toml::table table_;
};

// The files on the way from an entry to the one it extends last: a cycle is refused.
struct Chain {
  const FileReader& read;
  std::vector<std::string> names;

  void enter(const std::string& name, const std::string& at) {
    const bool seen = std::find(names.begin(), names.end(), name) != names.end();
    names.push_back(name);
    require_config(!seen && names.size() <= kMaxExtends,
                   "{}: extends goes round in a circle: {}; take one of them out", at,
                   fmt::join(names, " -> "));
  }
};

void read_types(const Reader& reader, const toml::table& table, std::string_view key,
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

Source source_of(std::string_view kind, std::string_view what, const std::string& name,
                 const FileReader& read) {
  std::optional<Source> source = find_source(kind, name, read);
  if (!source) refuse_name(kind, what, name);
  return *std::move(source);
}

void read_kind(const Reader& reader, const toml::table& table, DeviceKind& target) {
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
DeviceSpec read_device(const Reader& reader, const toml::table& table, Chain& chain) {
  std::vector<std::string_view> known = {"name", "kind", "extends", "peak_flops",
                                         "product_efficiency"};
  for (const DeviceKey& key : kDeviceKeys) known.push_back(key.name);
  reader.refuse_unknown(table, known);
  DeviceSpec device;
  std::string base;
  reader.read(table, "extends", base);
  if (!base.empty()) {
    chain.enter(base, reader.at(table.get("extends")->source()));
    const Source source = source_of(kDevices, "device", base, chain.read);
    const Reader base_reader(source.text, source.file_name);
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

LinkLevel read_level(const Reader& reader, const toml::table& table) {
  constexpr std::array<std::string_view, 8> kKnown = {
      "name",       "devices",          "shape",          "bandwidth", "latency_s",
      "efficiency", "oversubscription", "in_network_sums"};
  reader.refuse_unknown(table, kKnown);
  LinkLevel level;
  level.oversubscription = {1, Provenance::kDefault, "none is named"};
  level.efficiency = {1, Provenance::kDefault, "none is named"};
  reader.read(table, "name", level.name);
  reader.read(table, "devices", level.devices);
  reader.read(table, "bandwidth", level.bandwidth);
  reader.read(table, "latency_s", level.latency_s);
  reader.read(table, "efficiency", level.efficiency);
  reader.read(table, "oversubscription", level.oversubscription);
  reader.read(table, "in_network_sums", level.in_network_sums);
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

// By name or path, or written out as [device].
void read_device_of(const Reader& reader, const toml::table& table, const Chain& chain,
                    Cluster& cluster) {
  const toml::node* node = table.get("device");
  if (node == nullptr) return;
  if (const toml::table* own = node->as_table()) {
    Chain devices{chain.read, {}};
    cluster.device = read_device(reader, *own, devices);
    if (cluster.device.name.empty()) cluster.device.name = reader.file_name();
    return;
  }
  cluster.device = find_device(reader.text(*node, "device"), chain.read);
}

// Files of calibrate from before devices had a kind say in [measured] alone what it was.
void use_measured_kind(const toml::table& table, Cluster& cluster) {
  const toml::node* node = table.get("device");
  const toml::table* own = node == nullptr ? nullptr : node->as_table();
  if (own == nullptr || own->contains("kind") || own->contains("extends")) return;
  const bool cpu = cluster.measured.device == TrainDevice::kCpu;
  cluster.device.kind = cpu ? DeviceKind::kCpu : DeviceKind::kGpu;
}

Cluster read_cluster(const Reader& reader, Chain& chain) {
  const toml::table& table = reader.table();
  constexpr std::array<std::string_view, 7> kKnown = {
      "name", "extends", "device", "devices", "levels", "usd_per_device_hour", "measured"};
  reader.refuse_unknown(table, kKnown);
  Cluster cluster;
  std::string base;
  reader.read(table, "extends", base);
  if (!base.empty()) {
    chain.enter(base, reader.at(table.get("extends")->source()));
    const Source source = source_of(kClusters, "cluster", base, chain.read);
    cluster = read_cluster(Reader(source.text, source.file_name), chain);
  }
  reader.read(table, "name", cluster.name);
  reader.read(table, "devices", cluster.devices);
  reader.read(table, "usd_per_device_hour", cluster.usd_per_device_hour);
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

DeviceSpec named_device(const Source& source, const std::string& name, const FileReader& read) {
  Chain chain{read, {name}};
  const Reader reader(source.text, source.file_name);
  DeviceSpec device = read_device(reader, reader.table(), chain);
  if (device.name.empty()) device.name = name;
  check(device);
  return device;
}

Cluster named_cluster(const Source& source, const std::string& name, const FileReader& read) {
  Chain chain{read, {name}};
  Cluster cluster = read_cluster(Reader(source.text, source.file_name), chain);
  if (cluster.name.empty()) cluster.name = name;
  require_config(!cluster.device.name.empty(), "{}: device is missing: name one of {}",
                 source.file_name, fmt::join(device_names(), ", "));
  check(cluster);
  return cluster;
}

}  // namespace

std::vector<std::string_view> device_names() { return names_of_kind(kDevices); }
std::vector<std::string_view> cluster_names() { return names_of_kind(kClusters); }

DeviceSpec find_device(const std::string& name, const FileReader& read) {
  return named_device(source_of(kDevices, "device", name, read), name, read);
}

Cluster find_cluster(const std::string& name, const FileReader& read) {
  if (const std::optional<Source> source = find_source(kClusters, name, read)) {
    return named_cluster(*source, name, read);
  }
  if (const auto split = split_count(name)) {
    if (const std::optional<Source> source = find_source(kClusters, split->first, read)) {
      return with_devices(named_cluster(*source, split->first, read), split->second);
    }
    refuse_name(kClusters, "cluster", split->first);
  }
  refuse_name(kClusters, "cluster", name);
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
