// Every scenario with buffers that only a device reaches, without a GPU: nothing of a call may
// touch them but the device, and nobody may be told that data has moved before it has. comm/cuda
// has the same on a GPU.
#include "comm/testing/device_suite.h"

#include <gtest/gtest.h>

#include <numeric>
#include <tuple>

#include "comm/local/local_world.h"
#include "comm/testing/pretended_device.h"

namespace tessera {
namespace {

using namespace tessera::testing;

SharedDevice pretended() {
  const auto device = std::make_shared<PretendedDevice>();
  return {
      device,
      [device](void* to, const void* from, int64_t bytes) { device->upload(to, from, bytes); },
      [device](void* to, const void* from, int64_t bytes) { device->download(to, from, bytes); }};
}

class DeviceSuiteTest : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(DeviceSuiteTest, PassesWithTheBitsOfTheHost) {
  const Scenario& scenario = all_scenarios()[static_cast<size_t>(std::get<0>(GetParam()))];
  const int ranks = std::get<1>(GetParam());
  const auto outcomes = run_on_device(pretended(), scenario, ranks);
  EXPECT_EQ(errors_of(outcomes), "");
  EXPECT_EQ(reports_of(outcomes), reports_of(run_on_host(scenario, ranks)));
}

INSTANTIATE_TEST_SUITE_P(
    Pretended, DeviceSuiteTest,
    ::testing::Combine(::testing::Range(0, static_cast<int>(all_scenarios().size())),
                       ::testing::Values(1, 3, 5)),
    [](const auto& test) {
      return std::string(all_scenarios()[static_cast<size_t>(std::get<0>(test.param))].name) + "_" +
             std::to_string(std::get<1>(test.param));
    });

// The errors of ranks that each call `body` with their world.
std::vector<std::string> errors_on(const std::shared_ptr<PretendedDevice>& device, int ranks,
                                   const std::function<void(CommWorld&)>& body,
                                   std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const auto outcomes = run_as_threads({.ranks = ranks, .timeout = timeout, .device = device},
                                       [&](CommWorld& world) -> std::string {
                                         body(world);
                                         return "";
                                       });
  std::vector<std::string> errors;
  for (const RankOutcome& outcome : outcomes) errors.push_back(outcome.error);
  return errors;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DeviceMemoryTest, EveryRankHearsWhoPassedOtherMemory) {
  const auto device = std::make_shared<PretendedDevice>();
  const auto errors = errors_on(device, 3, [](CommWorld& world) {
    const auto group = world.join_all("tp");
    const HostArena on_device = world.allocate("data", 64);
    float on_host[16] = {};
    group->all_reduce(world.rank() == 1 ? static_cast<void*>(on_host) : on_device.data(), 4,
                      DType::kF32);
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error,
                         "rank 0 called all_reduce(f32, 4) #1 with memory of the pretended "
                         "GPU, rank 1 with memory of the host"))
        << error;
  }
}

TEST(DeviceMemoryTest, RefusesInputAndOutputInDifferentMemory) {
  const auto device = std::make_shared<PretendedDevice>();
  const auto errors = errors_on(device, 1, [](CommWorld& world) {
    const auto group = world.join_all("tp");
    const HostArena on_device = world.allocate("data", 64);
    float on_host[16] = {};
    group->all_gather(on_host, on_device.data(), 4, DType::kF32);
  });
  EXPECT_TRUE(contains(errors[0], "the input is memory of the host, the output of the pretended"))
      << errors[0];
}

TEST(DeviceMemoryTest, AMessageMustFindTheSameMemory) {
  const auto device = std::make_shared<PretendedDevice>();
  const auto errors = errors_on(device, 2, [](CommWorld& world) {
    const auto group = world.join_all("tp");
    const HostArena on_device = world.allocate("data", 64);
    float on_host[16] = {};
    if (world.rank() == 0) group->send(on_device.data(), 4, DType::kF32, 1);
    if (world.rank() == 1) group->receive(on_host, 4, DType::kF32, 0);
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error,
                         "rank 0 sends memory of the pretended GPU while rank 1 called "
                         "receive(f32, 4, from 0) #1 with memory of the host"))
        << error;
  }
}

TEST(DeviceMemoryTest, ADeviceThatBreaksEndsTheWorldInItsWords) {
  const auto device = std::make_shared<PretendedDevice>();
  device->breaks = true;
  const auto errors = errors_on(device, 2, [](CommWorld& world) {
    const auto group = world.join_all("tp");
    const HostArena data = world.allocate("data", 4096);
    group->all_reduce(data.data(), 1024, DType::kF32);
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, " in all_reduce(f32, 1024) #1: the device is broken")) << error;
  }
}

TEST(DeviceMemoryTest, ADeviceThatHangsEndsInTime) {
  const auto device = std::make_shared<PretendedDevice>();
  device->hangs = true;
  const auto errors = errors_on(
      device, 1,
      [](CommWorld& world) {
        const auto group = world.join_all("tp");
        const HostArena data = world.allocate("data", 4096);
        group->all_gather(data.data(), data.data() + 2048, 512, DType::kF32);
      },
      std::chrono::milliseconds(50));
  EXPECT_TRUE(contains(errors[0], "rank 0 in all_gather(f32, 512) #1: the device has not finished"))
      << errors[0];
}

// The sender gets its buffer back, or it would wait for a reader that has gone.
TEST(DeviceMemoryTest, AReceiverOnABrokenDeviceLetsItsSenderGo) {
  const auto device = std::make_shared<PretendedDevice>();
  device->breaks = true;
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = errors_on(device, 2, [](CommWorld& world) {
    const auto group = world.join_all("tp");
    const HostArena data = world.allocate("data", 4096);
    if (world.rank() == 0) group->send(data.data(), 1024, DType::kF32, 1);
    if (world.rank() == 1) group->receive(data.data(), 1024, DType::kF32, 0);
    group->barrier();
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "rank 1 in receive(f32, 1024, from 0) #1: the device is broken"))
        << error;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace tessera
