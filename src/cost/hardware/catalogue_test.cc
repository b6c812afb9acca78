#include "cost/hardware/catalogue.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/error.h"

namespace tessera {
namespace {

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

constexpr std::string_view kPair = R"(
device = "a100-80"
devices = 4
[[levels]]
name = "inside"
devices = 2
bandwidth = 1e9
[[levels]]
name = "outside"
bandwidth = [5e8, "measured", "a cable"]
latency_s = 1e-5
)";

TEST(CatalogueTest, EveryEntryIsValidAndEveryNumberHasASource) {
  for (const std::string_view name : device_names()) {
    const DeviceSpec device = find_device(std::string(name));
    EXPECT_EQ(device.name, name);
    EXPECT_FALSE(device.memory_bytes.source.empty()) << name;
    EXPECT_FALSE(device.memory_bandwidth.source.empty()) << name;
    EXPECT_GT(device.peak(MathType::kF16), 0) << name;
  }
  for (const std::string_view name : cluster_names()) {
    const Cluster cluster = find_cluster(std::string(name));
    for (const LinkLevel& level : cluster.levels) EXPECT_FALSE(level.bandwidth.source.empty());
  }
}

TEST(CatalogueTest, NumbersOfDataSheets) {
  EXPECT_EQ(find_device("a100-80").peak(MathType::kF16), 312e12);
  EXPECT_EQ(find_device("a100-40").memory_bytes.value, 40e9);
  EXPECT_EQ(find_device("a100-40").peak(MathType::kF16), 312e12);  // extends a100-80
  EXPECT_EQ(find_device("h100").memory_bandwidth.value, 3.35e12);
  EXPECT_EQ(find_device("h100").memory_bandwidth.provenance, Provenance::kVendor);
}

TEST(CatalogueTest, EveryDeviceHasAKind) {
  for (const std::string_view name : device_names()) {
    const DeviceKind kind = find_device(std::string(name)).kind;
    const DeviceKind expected = name == "cpu"               ? DeviceKind::kCpu
                                : name.starts_with("tpu-v") ? DeviceKind::kTpu
                                                            : DeviceKind::kGpu;
    EXPECT_EQ(kind, expected) << name;
  }
}

TEST(CatalogueTest, ANumberAfterTheNameScalesACluster) {
  const Cluster cluster = find_cluster("h100-16384");
  EXPECT_EQ(cluster.devices, 16384);
  EXPECT_EQ(cluster.node_devices(), 8);
  EXPECT_EQ(find_cluster("a100-40").device.memory_bytes.value, 40e9);  // an entry, not 40 devices
  EXPECT_EQ(find_cluster("a100-40-16").devices, 16);
}

TEST(CatalogueTest, ANumberBeforeADeviceIsAHostWithSoManyCards) {
  const Cluster cards = find_cluster("8xrtx-4090");
  EXPECT_EQ(cards.name, "8xrtx-4090");
  EXPECT_EQ(cards.devices, 8);
  EXPECT_EQ(cards.device.name, "rtx-4090");
  ASSERT_EQ(cards.levels.size(), 1U);
  EXPECT_EQ(cards.levels[0].devices, 8);
  // A device with a cluster of its name has that one's links.
  EXPECT_EQ(find_cluster("16xh100").name, "h100-16");
  EXPECT_EQ(find_cluster("16xh100").levels[0].name, "nvlink");
  for (const char* name : {"8xrtx-9999", "0xl4", "8x", "99999999999xl4"}) {
    EXPECT_THROW(find_cluster(name), ConfigError) << name;
  }
}

TEST(CatalogueTest, LlamaPodsHaveRailsAndOversubscription) {
  const Cluster cluster = find_cluster("llama3-24k");
  EXPECT_EQ(cluster.devices, 24576);
  ASSERT_EQ(cluster.levels.size(), 3);
  EXPECT_EQ(cluster.levels[1].devices, 3072);
  EXPECT_EQ(cluster.levels[2].oversubscription.value, 7);
}

TEST(CatalogueTest, ReadsAFileOfOnesOwn) {
  const Cluster cluster = parse_cluster(kPair, "mine.toml");
  EXPECT_EQ(cluster.devices, 4);
  EXPECT_EQ(cluster.levels[0].bandwidth.provenance, Provenance::kDefault);
  EXPECT_EQ(cluster.levels[1].bandwidth.provenance, Provenance::kMeasured);
  EXPECT_EQ(cluster.levels[1].bandwidth.source, "a cable");
}

TEST(CatalogueTest, UnitsMayBeWritten) {
  const Cluster cluster = parse_cluster(
      "device = \"a100-80\"\ndevices = \"1k\"\n[[levels]]\nname = \"wire\"\nbandwidth = "
      "\"400Gbps\"\nlatency_s = [\"5us\", \"measured\", \"a cable\"]\n",
      "mine.toml");
  EXPECT_EQ(cluster.devices, 1000);
  EXPECT_EQ(cluster.levels[0].bandwidth.value, 50e9);
  EXPECT_DOUBLE_EQ(cluster.levels[0].latency_s.value, 5e-6);
  EXPECT_EQ(
      refusal([] { parse_device("extends = 'h100'\nmemory_bandwidth = '3 parsec'", "d.toml"); }),
      "d.toml:2:20: memory_bandwidth is \"3 parsec\": expected a bandwidth, such as 25GB/s, or "
      "400Gbps for bits");
}

TEST(CatalogueTest, LettersMayBeOfAnyCase) {
  EXPECT_EQ(find_device("H100").name, find_device("h100").name);
  EXPECT_EQ(find_cluster("H100-64").name, "h100-64");
  EXPECT_EQ(find_cluster("8xRTX-4090").device.name, find_device("rtx-4090").name);
}

TEST(CatalogueTest, TheNameOfAClusterIsThatOfItsDevice) {
  EXPECT_EQ(find_device("A100").name, find_cluster("a100").device.name);
  EXPECT_NE(refusal([] { find_device("RTX"); }).find("did you mean 'rtx-3090' or 'rtx-4090'?"),
            std::string::npos);
}

TEST(CatalogueTest, DevicesMakeAClusterHoweverTheirNumberIsSaid) {
  EXPECT_EQ(find_cluster("l40s-8").name, find_cluster("8xl40s").name);
  EXPECT_EQ(find_cluster("rtx-4090-2").devices, 2);
  EXPECT_NE(refusal([] { find_cluster("l40s"); }).find("is a device: say how many"),
            std::string::npos);
  EXPECT_NE(refusal([] { find_cluster("4x3090"); }).find("did you mean 'rtx-3090'?"),
            std::string::npos);
  EXPECT_NE(refusal([] { find_device("h100-sxm"); }).find("did you mean 'h100'?"),
            std::string::npos);
}

TEST(CatalogueTest, RefusesWithPlaceValueAndFix) {
  EXPECT_NE(refusal([] { find_device("h20"); }).find("did you mean 'h200'?"), std::string::npos);
  EXPECT_NE(refusal([] { find_cluster("h100-0"); }).find("from 1 to"), std::string::npos);
  EXPECT_NE(refusal([] { find_cluster("h100-99999999999999999999"); }).find("unknown cluster"),
            std::string::npos);
  EXPECT_NE(refusal([] { find_cluster("nothing-8"); }).find("unknown cluster \"nothing\""),
            std::string::npos);
  EXPECT_NE(refusal([] {
              parse_device("memory_bandwith = 1", "d.toml");
            }).find("d.toml:1:1: unknown key"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              parse_device("extends = 'h100'\nmemory_bytes = -5", "d.toml");
            }).find("memory_bytes must be from"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              parse_device("extends = 'h100'\nlaunch_s = [1, 'guess', 'x']", "d.toml");
            }).find("is not a provenance"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              parse_device("extends = 'h100'\nkind = 'npu'", "d.toml");
            }).find("d.toml:2:8: kind must be cpu, gpu or tpu, got \"npu\""),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_device("launch_s = nan", "d.toml"); }).find("must be a number"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_cluster("devices = 2", "c.toml"); }).find("device is missing"),
            std::string::npos);
}

TEST(CatalogueTest, RefusesACircleOfExtends) {
  const std::map<std::string, std::string> files = {{"a.toml", "extends = 'b.toml'"},
                                                    {"b.toml", "extends = 'a.toml'"}};
  const FileReader read = [&](const std::string& path) { return files.at(path); };
  const std::string message = refusal([&] { find_device("a.toml", read); });
  EXPECT_NE(message.find("a.toml extends b.toml extends a.toml"), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera
