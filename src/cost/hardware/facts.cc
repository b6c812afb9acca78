#include "cost/hardware/facts.h"

#include <optional>
#include <vector>

#include "base/embedded.h"
#include "base/error.h"
#include "cost/hardware/constant_file.h"

namespace tessera {
namespace {

const CatalogueKind kDevices = {"devices", "device", embedded_devices};
const CatalogueKind kClusters = {"clusters", "cluster", embedded_clusters};

template <typename Facts, typename Keys>
Facts read_facts(const CatalogueSource& source, const Keys& keys) {
  Facts facts;
  const ConstantFile reader(source);
  const toml::node* node = reader.table().get("facts");
  if (node == nullptr) return facts;
  const toml::table* table = node->as_table();
  require_config(table != nullptr, "{}: facts must be a table, [facts]", reader.at(node->source()));
  std::vector<std::string_view> known;
  for (const auto& key : keys) known.push_back(key.name);
  reader.refuse_unknown(*table, known);
  for (const auto& key : keys) reader.read(*table, key.name, facts.*key.field);
  return facts;
}

// "h100-512" -> "h100"
std::string without_count(const std::string& name) {
  const size_t dash = name.rfind('-');
  const bool counted = dash != std::string::npos && dash + 1 < name.size() &&
                       name.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  return counted ? name.substr(0, dash) : name;
}

std::optional<CatalogueSource> source_of(const CatalogueKind& kind, const std::string& name,
                                         const FileReader& read) {
  if (auto source = look_up(kind, name, read)) return source;
  return look_up(kind, without_count(name), read);
}

}  // namespace

DeviceFacts facts_of_device(const std::string& name, const FileReader& read) {
  const auto source = source_of(kDevices, name, read);
  return source ? read_facts<DeviceFacts>(*source, kDeviceFactKeys) : DeviceFacts();
}

ClusterFacts facts_of_cluster(const std::string& name, const FileReader& read) {
  const auto source = source_of(kClusters, name, read);
  return source ? read_facts<ClusterFacts>(*source, kClusterFactKeys) : ClusterFacts();
}

}  // namespace tessera
