#include "api/cluster_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cost/hardware/catalogue.h"

namespace tessera {
namespace {

constexpr int64_t kMostCards = 16;  // of one host

bool is_file(std::string_view name) { return name.ends_with(".toml"); }

// The digits at the start of "8xrtx-4090"; 0: it is no host of cards.
size_t digits_of_host(std::string_view name) {
  const size_t end = name.find_first_not_of("0123456789");
  return end != std::string_view::npos && end > 0 && name[end] == 'x' ? end : 0;
}

// "h100-512" -> "h100"; entries of the catalogue are whole: "h100-96" is one.
std::string family_of(const std::string& name) {
  const std::vector<std::string_view> entries = cluster_names();
  if (std::find(entries.begin(), entries.end(), name) != entries.end()) return name;
  const size_t dash = name.rfind('-');
  const bool counted = dash != std::string::npos && dash + 1 < name.size() &&
                       name.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  return counted ? name.substr(0, dash) : name;
}

}  // namespace

int64_t most_devices(const std::string& cluster) {
  return digits_of_host(cluster) > 0 ? kMostCards : kMaxDevices;
}

std::string name_of_size(const std::string& cluster, int64_t devices) {
  if (is_file(cluster)) return cluster;
  if (const size_t digits = digits_of_host(cluster)) {
    return std::to_string(devices) + cluster.substr(digits);
  }
  return fmt::format("{}-{}", family_of(cluster), devices);
}

Cluster cluster_of_size(const std::string& cluster, int64_t devices, const FileReader& read) {
  if (is_file(cluster)) return with_devices(find_cluster(cluster, read), devices);
  return find_cluster(name_of_size(cluster, devices), read);
}

}  // namespace tessera
