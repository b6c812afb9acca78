// Weights in and out of the ranks' buckets: whatever the mesh, the file holds every logical tensor,
// whole, and the source's values.
#include "train/weights/weights.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/testing/peak_memory.h"
#include "base/testing/test_folder.h"
#include "checkpoint/safetensors.h"
#include "spec/run_file/run_file.h"
#include "support/tiny.h"
#include "train/verify/export_hf.h"

namespace tessera {
namespace {

using testing::TestFolder;
namespace fs = std::filesystem;

// A value that tells tensor and element.
void numbered(const LogicalTensor& tensor, int64_t first, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<double>(tensor.order) * 1e6 + static_cast<double>(first) +
             static_cast<double>(i) + 1;
  }
}

class WeightsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WeightsTest, AreSavedWholeOnEveryMesh) {
  const TestFolder folder;
  const std::string path = folder.path("weights.safetensors");
  World world(build_step(testing::parse_case(GetParam()).spec, StepKind::kTraining));
  LocalWorld control_world({.size = world.size()});
  world.run([&](int rank, Executor& executor) {
    load_weights(executor, world.step(), numbered);
    save_weights(path, world.step(), executor, *control_world.endpoint(rank).join_all("control"));
  });

  const SafetensorsFile file = SafetensorsFile::open(path);
  const std::vector<LogicalValues> state = gather_state(world, StateKind::kWeights);
  ASSERT_EQ(file.tensors().size(), state.size());
  for (const LogicalValues& gathered : state) {
    std::vector<double> expected(gathered.values.size()), saved(gathered.values.size());
    numbered(gathered.tensor, 0, expected);
    EXPECT_EQ(gathered.values, expected) << gathered.tensor.name;
    EXPECT_EQ(file.at(gathered.tensor.name).shape, gathered.tensor.shape);
    file.read(gathered.tensor.name, saved);
    EXPECT_EQ(saved, expected) << gathered.tensor.name;
  }
}

// Values that a model can compute with.
void small_values(const LogicalTensor& tensor, int64_t first, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] =
        1e-4 * static_cast<double>((tensor.order * 31 + first + static_cast<int64_t>(i)) % 997);
  }
}

// A folder with weights in several files, of which a tensor alone takes 13 MB, 26 as f64.
std::string folder_of_many_files(const TestFolder& folder, RunSpec& spec) {
  spec = testing::parse_case("vocab=50000 hidden=64 ffn=64 layers=1 dtype=f32 tied=false").spec;
  fs::create_directories(folder.path("whole"));
  World world(build_step(spec, StepKind::kForward));
  LocalWorld control_world({.size = world.size()});
  world.run([&](int rank, Executor& executor) {
    load_weights(executor, world.step(), small_values);
    save_weights(folder.path("whole/model.safetensors"), world.step(), executor,
                 *control_world.endpoint(rank).join_all("control"));
  });
  folder.write("whole/config.json", hf_config(spec)->dump());
  export_hf(
      {.source = folder.path("whole"), .out = folder.path("parts"), .shard_bytes = 15'000'000});
  return folder.path("parts");
}

TEST(WeightsMemoryTest, AFolderOfManyFilesIsReadByRows) {
  const TestFolder folder;
  RunSpec spec;
  const std::string parts = folder_of_many_files(folder, spec);
  ASSERT_TRUE(fs::exists(parts + "/model.safetensors.index.json"));
  World world(build_step(spec, StepKind::kForward));
  const TensorSource source = hf_weights(parts, world.step().layout);
  size_t longest = 0;
  const TensorSource counted = [&](const LogicalTensor& tensor, int64_t first,
                                   std::span<double> out) {
    longest = std::max(longest, out.size());
    source(tensor, first, out);
  };
  world.run([&](int, Executor& executor) {
    load_weights(executor, world.step(), counted);  // now its weights are resident
    const testing::PeakMemory memory;
    const int64_t before = memory.bytes();
    load_weights(executor, world.step(), counted);
    EXPECT_LE(memory.bytes() - before, int64_t{8} << 20);
  });
  EXPECT_LE(longest, 4096U) << "of " << 50'000 * 64 << " values of a tensor";
}

INSTANTIATE_TEST_SUITE_P(Meshes, WeightsTest,
                         ::testing::Values("dp=1", "dp=3 zero=0 global_batch=3", "dp=2 zero=1",
                                           "dp=2 zero=3", "fsdp=3 zero=3 global_batch=3",
                                           "tp=2 vocab=37 ffn=21", "tp=4 kv_heads=1 vocab=41",
                                           "dp=2 fsdp=2 zero=2", "dp=2 tp=2 zero=1 tied=true",
                                           "fsdp=2 tp=2 zero=3 kv_heads=2 vocab=39"));

}  // namespace
}  // namespace tessera
