#include "published/hardware.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/parse_real.h"
#include "base/text.h"
#include "cost/hardware/catalogue.h"

namespace tessera {
namespace {

constexpr double kBitsPerByte = 8;
constexpr double kNvlink3LinkBytes = 25e9;  // one NVLink 3 link, one direction (NVIDIA A100)

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? lower(found->get<std::string>()) : "";
}

// The longest entry whose letters and digits occur in the text: "TPU v4 (275 TF)" has tpu-v4.
std::string entry_of(const std::string& gpu) {
  std::string letters;
  for (const char c : gpu) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) letters += c;
  }
  struct Word {
    std::string_view word, entry;
  };
  // Names of the catalogue's clusters as papers write them; longer ones first.
  constexpr std::array kWords = {
      Word{"gb300", "gb300"},  Word{"gb200", "gb200"}, Word{"b300", "b300"},
      Word{"b200", "b200"},    Word{"h200", "h200"},   Word{"h100", "h100"},
      Word{"a100", "a100"},    Word{"v100", "v100"},   Word{"tpuv5p", "tpu-v5p"},
      Word{"tpuv4", "tpu-v4"}, Word{"tpuv3", "tpu-v3"}};
  for (const Word& word : kWords) {
    if (!has(letters, word.word)) continue;
    std::string entry(word.entry);
    if (entry == "a100" && has(letters, "40gb")) entry = "a100-40";
    if (entry == "h100" && has(letters, "96gb")) entry = "h100-96";
    return entry;
  }
  throw ConfigError(fmt::format("no device of the catalogue is called {}: known are {}",
                                in_quotes(gpu), fmt::join(device_names(), ", ")));
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
  struct Adapter {
    std::string_view word;
    double bits;
  };
  constexpr std::array kAdapters = {Adapter{"hdr", 200e9}, Adapter{"omni-path 100g", 100e9},
                                    Adapter{"ndr", 400e9}, Adapter{"edr", 100e9},
                                    Adapter{"xdr", 800e9}};
  for (const Adapter& adapter : kAdapters) {
    const size_t at = text.find(adapter.word);
    if (at == std::string::npos) continue;
    const size_t times = text.rfind("x ", at);
    const std::optional<double> count =
        times != std::string::npos && times + 2 == at ? number_before(text, times) : std::nullopt;
    const double bytes = adapter.bits / kBitsPerByte;
    return count ? bytes * *count / devices_per_node : bytes;
  }
  return std::nullopt;
}

}  // namespace

Cluster cluster_of_text(const nlohmann::json& hw, int64_t devices, std::vector<Guess>& guesses) {
  const std::string gpu = text_of(hw, "gpu");
  require_config(!gpu.empty(), "the device is not named");
  Cluster cluster = find_cluster(entry_of(gpu));
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
