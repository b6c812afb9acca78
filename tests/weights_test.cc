// Weights in and out of the ranks' buckets: whatever the mesh, the file holds every logical tensor,
// whole, and the source's values.
#include "train/session/weights.h"

#include <gtest/gtest.h>

#include "base/testing/test_folder.h"
#include "checkpoint/safetensors.h"
#include "support/tiny.h"

namespace tessera {
namespace {

using testing::TestFolder;

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

INSTANTIATE_TEST_SUITE_P(Meshes, WeightsTest,
                         ::testing::Values("dp=1", "dp=3 zero=0 global_batch=3", "dp=2 zero=1",
                                           "dp=2 zero=3", "fsdp=3 zero=3 global_batch=3",
                                           "tp=2 vocab=37 ffn=21", "tp=4 kv_heads=1 vocab=41",
                                           "dp=2 fsdp=2 zero=2", "dp=2 tp=2 zero=1 tied=true",
                                           "fsdp=2 tp=2 zero=3 kv_heads=2 vocab=39"));

}  // namespace
}  // namespace tessera
