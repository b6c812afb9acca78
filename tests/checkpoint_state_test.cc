// Weights and states of the optimizer on any mesh are boxes of the same tensors: they cover each
// exactly once, and what one mesh saves another reads, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/testing/share.h"
#include "base/testing/test_folder.h"
#include "checkpoint/store/committer.h"
#include "checkpoint/store/saves.h"
#include "plan/failure_plan.h"
#include "runtime/world.h"
#include "support/random_case.h"
#include "train/state/staging.h"

namespace tessera {
namespace {

using testing::TestFolder;

int64_t elements(const std::vector<int64_t>& shape) { return volume(whole_box(shape)); }

// Every element is there once, apart from replicas; and every buffer is told from others.
void expect_exact_cover(const StepGraph& step) {
  const StateLayout layout = lay_out_state(step);
  ASSERT_EQ(std::ssize(layout.ranks), step.mesh.world());
  SavePlan plan;
  ASSERT_NO_THROW(plan = plan_save(layout));  // proves the cover
  int64_t weights = 0, bytes = 0;
  for (const TensorHead& tensor : layout.tensors) {
    bytes += elements(tensor.shape) * size_bits(tensor.type) / 8;
    if (!tensor.name.starts_with("optim.")) weights += elements(tensor.shape);
  }
  EXPECT_EQ(weights, step.layout.num_parameters);
  EXPECT_EQ(bytes, checkpoint_bytes(step.spec, step.layout.num_parameters)) << "as planned";
  for (int rank = 0; rank < step.mesh.world(); ++rank) {
    const Program program = lower(step, rank);
    std::map<BufferId, std::set<int64_t>> taken;  // elements of each buffer: none twice
    for (const StateBox& box : layout.ranks[static_cast<size_t>(rank)]) {
      const BufferId id = buffer_of(program.buckets[box.bucket], box.part);
      ASSERT_NE(id, kNoBuffer);
      const TensorHead& tensor = layout.tensors[box.tensor];
      ASSERT_TRUE(lies_in(box.place.box, tensor.shape));
      EXPECT_EQ(size_bits(tensor.type), 8 * size_bytes(program.buffer(id).dtype));
      for_each_common_run(box.place, placed_dense(box.place.box), box.place.box,
                          [&](int64_t at, int64_t, int64_t count) {
                            ASSERT_GE(at, 0);
                            ASSERT_LE(at + count, numel(program.buffer(id).shape));
                            for (int64_t i = at; i < at + count; ++i) {
                              ASSERT_TRUE(taken[id].insert(i).second) << tensor.name << " " << i;
                            }
                          });
    }
  }
}

TEST(StateLayoutTest, EveryMeshCoversEveryTensorExactly) {
  const testing::Share share = testing::share_of(120, 4);
  for (int64_t seed = share.begin; seed < share.end; ++seed) {
    const std::string line = testing::random_case(static_cast<uint64_t>(seed));
    SCOPED_TRACE(line);
    expect_exact_cover(build_step(testing::parse_case(line).spec, StepKind::kTraining));
  }
}

TEST(StateLayoutTest, KnowsWhatOptimizersAndTypesKeep) {
  const auto names = [](const std::string& line) {
    std::map<std::string, std::string> types;
    const StepGraph step = build_step(testing::parse_case(line).spec, StepKind::kTraining);
    for (const TensorHead& tensor : lay_out_state(step).tensors) {
      const size_t at = tensor.name.find("lm_head.weight");
      if (at != std::string::npos) types[tensor.name.substr(0, at)] = name_of(tensor.type);
    }
    expect_exact_cover(step);
    return types;
  };
  using Types = std::map<std::string, std::string>;
  EXPECT_EQ(names("dtype=f32 dp=2 zero=1"),
            (Types{{"", "F32"}, {"optim.m.", "F32"}, {"optim.v.", "F32"}}));
  EXPECT_EQ(
      names("dtype=bf16 tp=2"),
      (Types{{"", "BF16"}, {"optim.m.", "F32"}, {"optim.rest.", "I16"}, {"optim.v.", "F32"}}));
  EXPECT_EQ(names("dtype=f16 kind=sgd eps=1e-8 momentum=0.9"),
            (Types{{"", "F16"}, {"optim.master.", "F32"}, {"optim.momentum.", "F32"}}));
  EXPECT_EQ(names("dtype=f64 kind=sgd eps=1e-8 momentum=0"), (Types{{"", "F64"}}));
}

// A value that tells the tensor, of any part, and the element.
uint64_t value_of_element(const std::string& tensor, int64_t element) {
  return hash_name(tensor) * 31 + static_cast<uint64_t>(element);
}

// Writes such values into all that the ranks hold, or compares with them.
class MeshState {
 public:
  explicit MeshState(const std::string& line)
      : world_(build_step(testing::parse_case(line).spec, StepKind::kTraining)),
        layout_(lay_out_state(world_.step())) {
    world_.run([](int, Executor&) {});  // makes the executors
  }

  void fill() {
    for_each_run([](std::byte* at, int64_t element, const TensorHead& tensor, int64_t bytes) {
      const uint64_t value = value_of_element(tensor.name, element);
      std::memcpy(at, &value, static_cast<size_t>(bytes));
    });
  }
  int64_t differences() {
    int64_t different = 0;
    for_each_run([&](std::byte* at, int64_t element, const TensorHead& tensor, int64_t bytes) {
      const uint64_t value = value_of_element(tensor.name, element);
      different += std::memcmp(at, &value, static_cast<size_t>(bytes)) == 0 ? 0 : 1;
    });
    return different;
  }
  void save(FileOps& files, const SaveId& id) {
    const SavePlan plan = plan_save(layout_);
    begin_save(files, id);
    std::vector<ShardAck> acks;
    for (int rank = 0; rank < world_.size(); ++rank) {
      Executor& executor = world_.executor(rank);
      Staging staging(executor.rank().device(), lay_out_staging(layout_, plan, rank));
      staging.fill(executor);
      // Half of them from where it is.
      acks.push_back(
          write_shard(files, plan, id, 1, rank,
                      rank % 2 == 1 ? state_source(executor, layout_, plan) : staging.source(),
                      staging.write_buffer()));
    }
    commit_save(files, plan, id, 1, acks, nlohmann::json::object());
  }
  void load(const FileOps& files) {
    const CheckpointFolder checkpoint = open_checkpoint(files, step_folder(1));
    for (int rank = 0; rank < world_.size(); ++rank) {
      const ReadFigures figures =
          load_state(world_.executor(rank), world_.step(), layout_, files, checkpoint);
      EXPECT_LE(figures.read_bytes,
                figures.needed_bytes + 4 * kStoreBlockBytes * std::max<int64_t>(1, figures.spans));
    }
  }

 private:
  template <typename F>
  void for_each_run(const F& f) {
    for (int rank = 0; rank < world_.size(); ++rank) {
      Executor& executor = world_.executor(rank);
      std::vector<StateBox> boxes = layout_.ranks[static_cast<size_t>(rank)];
      const std::vector<StateBox> whole = whole_weights(world_.step(), layout_, rank);
      for (const StateBox& box : boxes) {
        visit(executor, buffer_of(executor.program().buckets[box.bucket], box.part), box, f);
      }
      for (const StateBox& box : whole) {
        visit(executor, executor.program().buckets[box.bucket].full, box, f);
      }
    }
  }
  template <typename F>
  void visit(Executor& executor, BufferId id, const StateBox& box, const F& f) {
    if (id == kNoBuffer) return;
    const HostView view = executor.view(id);
    const TensorHead& tensor = layout_.tensors[box.tensor];
    const int64_t bytes = size_bits(tensor.type) / 8;
    for_each_common_run(placed_dense(whole_box(tensor.shape)), box.place, box.place.box,
                        [&](int64_t element, int64_t at, int64_t count) {
                          auto* memory = static_cast<std::byte*>(view.tensor.data);
                          for (int64_t i = 0; i < count; ++i)
                            f(memory + (at + i) * bytes, element + i, tensor, bytes);
                        });
  }

  World world_;
  StateLayout layout_;
};

// Pairs of meshes of one model: odd sizes, padded vocabulary, tied weights over stages, experts.
struct Grid {
  const char* model;
  std::vector<const char*> meshes;
};
std::vector<Grid> grids() {
  return {{"vocab=37 ffn=21 layers=4 dtype=f32",
           {"dp=1", "dp=3 zero=1 global_batch=3", "dp=2 zero=3", "tp=2", "tp=4", "pp=2", "pp=4",
            "fsdp=3 zero=3 global_batch=3", "dp=2 tp=2 zero=2", "pp=2 tp=2 dp=2 zero=1",
            "cp=2 zero=1", "fsdp=2 dp=2 zero=3"}},
          {"vocab=41 tied=true layers=3 dtype=bf16 kv_heads=1",
           {"dp=1", "pp=3", "tp=2 pp=2 layers=3", "dp=4 zero=1", "tp=4", "dp=2 pp=2 zero=0",
            "fsdp=2 tp=2 zero=3"}},
          {"family=mixtral experts=4 dtype=f32 vocab=39",
           {"dp=1", "ep=2 tp=2", "ep=4 fsdp=4 zero=3", "dp=2 zero=1", "tp=2 dp=2 zero=2",
            "ep=2 dp=2 fsdp=2 zero=1"}},
          {"family=gpt2 kv_heads=4 hidden=16 head_dim=4 dtype=f16 kind=sgd eps=1e-8 momentum=0.9 "
           "vocab=17",
           {"dp=1", "tp=2", "tp=4 dp=2 zero=1", "pp=2 dp=2 zero=2", "dp=5 zero=3 global_batch=5"}}};
}

TEST(ReshardTest, AnyMeshReadsWhatAnotherSaved) {
  struct Pair {
    std::string from, to;
  };
  std::vector<Pair> pairs;
  for (const Grid& grid : grids()) {
    for (size_t i = 0; i < grid.meshes.size(); ++i) {
      // Every mesh with its neighbours and with one rank; all pairs under --all.
      for (size_t j = 0; j < grid.meshes.size(); ++j) {
        const bool near = j == (i + 1) % grid.meshes.size() || j == 0;
        if (!near && !testing::tries_all()) continue;
        pairs.push_back({fmt::format("{} {}", grid.model, grid.meshes[i]),
                         fmt::format("{} {}", grid.model, grid.meshes[j])});
      }
    }
  }
  EXPECT_GE(pairs.size(), 50U);
  for (const Pair& pair : testing::share_of(pairs, 3)) {
    SCOPED_TRACE(pair.from + " -> " + pair.to);
    const TestFolder folder;
    const std::unique_ptr<FileOps> files = real_files(folder.path());
    {
      MeshState saved(pair.from);
      saved.fill();
      saved.save(*files, {"run1", 1, "a"});
    }
    MeshState loaded(pair.to);
    EXPECT_GT(loaded.differences(), 0);  // the comparison can fail
    loaded.load(*files);
    EXPECT_EQ(loaded.differences(), 0);
  }
}

TEST(ReshardTest, AnotherModelIsRefusedWithBothValues) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path());
  MeshState saved("vocab=37 dtype=f32");
  saved.save(*files, {"run1", 1, "a"});
  const auto message = [&](const std::string& line) -> std::string {
    MeshState other(line);
    try {
      other.load(*files);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message("vocab=38 dtype=f32").find("but the model needs [38, "), std::string::npos);
  EXPECT_NE(message("vocab=37 dtype=bf16").find("has dtype F32"), std::string::npos);
  EXPECT_NE(message("vocab=37 dtype=f32 layers=3").find("has no tensor"), std::string::npos);
  EXPECT_EQ(message("vocab=37 dtype=f32 tp=2"), "no error");
}

}  // namespace
}  // namespace tessera
