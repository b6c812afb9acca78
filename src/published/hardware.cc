#include "published/hardware.h"

#include <fmt/ranges.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/text.h"
#include "cost/hardware/catalogue.h"
#include "published/words.h"

namespace tessera {
namespace {

constexpr double kBitsPerByte = 8;
constexpr double kNvlink3LinkBytes = 25e9;  // one NVLink 3 link, one direction (NVIDIA A100)

bool has(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? lower(found->get<std::string>()) : "";
}

// "TPU v4 (275 TF)" has tpu-v4 in its letters and digits.
std::string entry_of(const std::string& gpu) {
  std::string letters;
  for (const char c : gpu) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) letters += c;
  }
  std::string entry = meaning("device", letters);
  require_config(!entry.empty(), "no device of the catalogue is called {}: known are {}",
                 in_quotes(gpu), fmt::join(device_names(), ", "));
  return entry;
}

// The number that ends right before `at`, skipping spaces.
std::optional<double> number_before(const std::string& text, size_t at) {
  size_t end = at;
  while (end > 0 && text[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0 ||
                       text[begin - 1] == '.')) {
    --begin;
  }
  const std::optional<ParsedReal> number =
      parse_real(std::string_view(text).substr(begin, end - begin));
  if (!number.has_value()) return std::nullopt;
  return number->value;
}

// Bytes/s between nodes for each of the node's devices, as the text says it.
std::optional<double> network_bytes(const std::string& text, double devices_per_node) {
  // "800 Gb/s per node", "1600 Gbps/node", "400 Gb/s per GPU", "IB, 200 Gb/s".
  for (const std::string_view unit : {"gb/s", "gbps"}) {
    for (size_t at = text.find(unit); at != std::string::npos; at = text.find(unit, at + 1)) {
      const std::optional<double> number = number_before(text, at);
      if (!number) continue;
      const std::string after = text.substr(at + unit.size(), 12);
      if (after.starts_with("/dir") || after.starts_with(" each") ||
          after.starts_with("/gpu/dir")) {
        continue;  // of NVLink, or of one adapter in bytes
      }
      const double bytes = *number * 1e9 / kBitsPerByte;
      if (has(after, "node")) return bytes / devices_per_node;
      return bytes;
    }
  }
  // "8x HDR200", "4x Omni-Path 100G per node", "4x HDR IB per node", "NDR400".
  const FoundWord adapter = find_word("adapter", text);
  if (adapter.at == std::string::npos) return std::nullopt;
  const size_t times = text.rfind("x ", adapter.at);
  const std::optional<double> count = times != std::string::npos && times + 2 == adapter.at
                                          ? number_before(text, times)
                                          : std::nullopt;
  const double bytes = std::stod(adapter.meaning) / kBitsPerByte;
  return count ? bytes * *count / devices_per_node : bytes;
}

}  // namespace

Cluster cluster_of_text(const nlohmann::json& hw, int64_t devices,
                        const std::function<Cluster(const std::string&)>& find,
                        std::vector<Guess>& guesses) {
  const std::string gpu = text_of(hw, "gpu");
  require_config(!gpu.empty(), "the device is not named");
  const std::string entry = entry_of(gpu);
  Cluster cluster = find ? find(entry) : find_cluster(entry);
  cluster.devices = devices;
  const std::string links = text_of(hw, "interconnect");
  LinkLevel& node = cluster.levels.front();
  const auto per_node = hw.find("gpus_per_node");
  const bool rack = has(links, "nvl72");
  if (!rack && node.shape == LinkShape::kSwitch && per_node != hw.end() &&
      per_node->is_number_integer() && per_node->get<int64_t>() > 1) {
    node.devices = per_node->get<int64_t>();
  }
  if (const size_t at = links.find(" links/gpu"); at != std::string::npos) {
    if (const std::optional<double> count = number_before(links, at)) {
      node.bandwidth = {*count * kNvlink3LinkBytes, Provenance::kMeasured, "the entry"};
    }
  }
  const std::optional<double> network =
      network_bytes(links, static_cast<double>(cluster.node_devices()));
  if (network && cluster.levels.size() > 1) {
    cluster.levels[1].bandwidth = {*network, Provenance::kMeasured, "the entry"};
  } else if (cluster.levels.size() > 1 && devices > cluster.node_devices()) {
    guesses.push_back(
        {"network", fmt::format("{:g} GB/s for a device, as {} usually has",
                                cluster.levels[1].bandwidth.value / 1e9, cluster.name)});
  }
  check(cluster);
  return cluster;
}

}  // namespace tessera
