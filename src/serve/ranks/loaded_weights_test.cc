// Weights that any mesh saved, on every mesh that serves them: the same bits, little more read than
// is needed, and little memory beside the weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/testing/share.h"
#include "base/testing/test_folder.h"
#include "runtime/world.h"
#include "serve/engine/engine.h"
#include "serve/ranks/local_frames.h"
#include "serve/testing/served_model.h"
#include "serve/testing/start_scene.h"
#include "serve/testing/text_feeder.h"
#include "serve/testing/text_listener.h"
#include "serve/testing/weight_digest.h"
#include "spec/run_file/validate.h"
#include "train/verify/export_hf.h"
#include "train/verify/model_folder.h"

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;
using tessera::testing::TestFolder;

struct MeshOf {
  int64_t tp = 1, pp = 1;
};

std::vector<MeshOf> serving_meshes() {
  std::vector<MeshOf> meshes;
  for (const int64_t tp : {1, 2, 4}) {
    for (const int64_t pp : {1, 2, 4}) meshes.push_back({tp, pp});
  }
  return meshes;
}

std::unique_ptr<LocalFrameRunner> load(const std::string& folder, const MeshOf& mesh, DType dtype) {
  ServeOptions options;
  options.model = folder;
  options.tp = mesh.tp;
  options.pp = mesh.pp;
  options.dtype = dtype;
  options.threads = 1;
  options.max_context = 24;
  options.page_size = 4;
  options.num_pages = 16;
  options.max_tokens = options.max_sequences = options.max_rows = 4;
  options.timeout = std::chrono::milliseconds(60'000);
  return std::make_unique<LocalFrameRunner>(plan_serving(open_model_folder(folder).spec, options));
}

WeightDigest digest_of(const LocalFrameRunner& runner) {
  std::vector<std::vector<HeldPart>> ranks;
  const StepGraph& step = runner.plan().buckets.front().step;
  for (int rank = 0; rank < runner.plan().world(); ++rank) {
    ranks.push_back(held_parts(runner.rank(rank).executor(), step));
  }
  return whole_digest(ranks, step.layout);
}

// As one rank of training loads them, row by row.
WeightDigest digest_of_training(const std::string& folder, DType dtype) {
  RunSpec spec = open_model_folder(folder).spec;
  spec.train.dtype = dtype;
  resolve(spec);
  World world(build_step(spec, StepKind::kForward));
  const TensorSource weights = hf_weights(folder, world.step().layout);
  std::vector<std::vector<HeldPart>> parts(1);
  world.run([&](int, Executor& executor) {
    load_weights(executor, world.step(), weights);
    parts[0] = held_parts(executor, world.step());
  });
  return whole_digest(parts, world.step().layout);
}

// The rest of every block that a stretch begins or ends in is read with it.
int64_t most_read(const ReadFigures& disk) {
  return disk.needed_bytes + disk.gap_bytes + disk.spans * 2 * kStoreBlockBytes;
}

// What the rank has of all tensors, without padding.
int64_t held_elements(const LocalFrameRunner& runner, int rank) {
  int64_t elements = 0;
  const StepGraph& step = runner.plan().buckets.front().step;
  for (const HeldPart& part : held_parts(runner.rank(rank).executor(), step)) {
    elements += part.elements;
  }
  return elements;
}

void expect_bounds(const LocalFrameRunner& runner, int64_t stored_element) {
  for (int rank = 0; rank < runner.plan().world(); ++rank) {
    const LoadFigures& loaded = runner.rank(rank).loaded();
    EXPECT_EQ(loaded.disk.needed_bytes, held_elements(runner, rank) * stored_element)
        << "rank " << rank;
    EXPECT_LE(loaded.disk.read_bytes, most_read(loaded.disk)) << "rank " << rank;
    EXPECT_GT(loaded.staging_bytes, 0) << "rank " << rank;
    EXPECT_LE(loaded.staging_bytes, int64_t{256} << 20) << "rank " << rank;
  }
}

std::vector<int32_t> greedy_text(std::unique_ptr<LocalFrameRunner> runner) {
  EngineOptions options;
  options.batch.token_budget = 4;
  Engine engine(std::move(runner), options);
  return answer_of(engine, greedy_request({1, 35, 7, 7, 20}, 6));
}

// A run, the folder that it is exported to, and its checkpoint.
std::vector<std::string> saved_forms(const TestFolder& folder, const std::string& mesh,
                                     const std::function<void(RunSpec&)>& change) {
  const std::string run = train_run(folder, mesh, change);
  const std::string exported = folder.path("exported");
  (void)export_hf({.source = run, .out = exported});
  return {run, exported, run + "/checkpoints/step-00000002"};
}

// Four layers and four heads, so that pp = 4 and tp = 4 have one each.
void deep(RunSpec& spec) {
  spec.model.layers = 4;
  spec.model.kv_heads = 2;
}

TEST(LoadedWeights, AreThoseThatAnyMeshSaved) {
  struct Load {
    std::string form;
    MeshOf mesh;
  };
  const std::vector<std::string> meshes = {"tp=1", "tp=2",      "tp=4",
                                           "pp=2", "tp=2,pp=2", "tp=4,pp=2"};
  for (const std::string& saved : tessera::testing::share_of(meshes, 3)) {
    const TestFolder folder;
    const std::vector<std::string> forms = saved_forms(folder, saved, deep);
    const WeightDigest expected = digest_of_training(forms.front(), DType::kF64);
    EXPECT_GT(expected.size(), 30U);
    const std::vector<int32_t> text = greedy_text(load(forms.front(), {}, DType::kF64));
    std::vector<Load> loads;
    for (const std::string& form : forms) {
      for (const MeshOf& mesh : serving_meshes()) loads.push_back({form, mesh});
    }
    for (const Load& one : tessera::testing::share_of(loads, 5)) {
      SCOPED_TRACE(
          fmt::format("{} of {} on tp={} pp={}", one.form, saved, one.mesh.tp, one.mesh.pp));
      auto runner = load(one.form, one.mesh, DType::kF64);
      EXPECT_EQ(digest_of(*runner), expected);
      expect_bounds(*runner, 8);
      EXPECT_EQ(greedy_text(std::move(runner)), text);
    }
  }
}

// Files of many blocks, so that what is read is told from what is needed.
TEST(LoadedWeights, AreReadByTheRanksThatNeedThem) {
  const TestFolder folder;
  const std::vector<std::string> forms = saved_forms(folder, "tp=2", [](RunSpec& spec) {
    deep(spec);
    spec.model.hidden = 256;
    spec.model.ffn = 1024;
    spec.model.head_dim = 64;
    spec.model.vocab = 8192;
    spec.train.dtype = DType::kBF16;
    spec.train.steps = 2;
  });
  const WeightDigest expected = digest_of_training(forms.front(), DType::kBF16);
  for (const std::string& form : tessera::testing::share_of(forms, 3)) {
    int64_t whole = 0;  // that one rank reads
    for (const MeshOf& mesh : {MeshOf{1, 1}, {4, 1}, {1, 4}, {2, 2}, {4, 4}}) {
      SCOPED_TRACE(fmt::format("{} on tp={} pp={}", form, mesh.tp, mesh.pp));
      const auto runner = load(form, mesh, DType::kBF16);
      EXPECT_EQ(digest_of(*runner), expected);
      expect_bounds(*runner, 2);
      const LoadFigures& first = runner->rank(0).loaded();
      EXPECT_LE(first.staging_bytes, WeightsOnDisk::kReadBytes) << "straight into place";
      if (whole == 0) whole = first.disk.read_bytes;
      if (mesh.tp == 1 && mesh.pp == 4) {
        EXPECT_LT(first.disk.read_bytes, whole / 2);
      }
    }
  }
}

TEST(LoadedWeights, ChangeTheirTypeOnTheWay) {
  const TestFolder folder;
  for (const auto& [saved, served] :
       {std::pair{DType::kF32, DType::kBF16}, {DType::kBF16, DType::kF32}}) {
    const TestFolder own;
    const auto forms = saved_forms(own, "pp=2", [dtype = saved](RunSpec& spec) {
      deep(spec);
      spec.train.dtype = dtype;
    });
    const WeightDigest expected = digest_of_training(forms.front(), served);
    for (const std::string& form : forms) {
      for (const MeshOf& mesh : {MeshOf{1, 1}, MeshOf{4, 1}, MeshOf{2, 2}}) {
        const auto runner = load(form, mesh, served);
        EXPECT_EQ(digest_of(*runner), expected) << form;
        expect_bounds(*runner, size_bytes(saved));
      }
    }
  }
}

// Transposed, side by side in one tensor, with biases, by experts, tied: in every family's files.
TEST(LoadedWeights, OfEveryFamilyAreThoseOfTraining) {
  for (const std::string& folder : model_folders()) {
    const ModelSpec model = open_model_folder(folder).spec.model;
    const WeightDigest expected = digest_of_training(folder, DType::kF32);
    for (const MeshOf& mesh : tessera::testing::share_of(serving_meshes(), 3)) {
      if (model.heads % mesh.tp != 0 || mesh.pp > model.layers) continue;
      SCOPED_TRACE(fmt::format("{} on tp={} pp={}", folder, mesh.tp, mesh.pp));
      EXPECT_EQ(digest_of(*load(folder, mesh, DType::kF32)), expected);
    }
  }
}

// The digest sees a wrong element, and an element in a wrong place.
TEST(LoadedWeights, DigestsTellWeightsApart) {
  const testing::ServedModel model = folder_model(model_folders().front());
  const auto digest = [&](const std::function<void(int64_t first, std::span<double>)>& change) {
    RunSpec spec = model.spec;
    World world(build_step(spec, StepKind::kForward));
    const TensorSource weights = model.weights(world.step().layout);
    std::vector<std::vector<HeldPart>> parts(1);
    world.run([&](int, Executor& executor) {
      load_weights(executor, world.step(),
                   [&](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
                     weights(tensor, first, out);
                     if (tensor.order == 1) change(first, out);
                   });
      parts[0] = held_parts(executor, world.step());
    });
    return whole_digest(parts, world.step().layout);
  };
  const WeightDigest right = digest([](int64_t, std::span<double>) {});
  const WeightDigest wrong = digest([](int64_t first, std::span<double> out) {
    if (first == 0) out[0] += 1;
  });
  const WeightDigest moved = digest([](int64_t first, std::span<double> out) {
    if (first == 0) std::swap(out[0], out[1]);
  });
  EXPECT_NE(wrong, right);
  EXPECT_NE(moved, right);
  EXPECT_NE(moved, wrong);
}

}  // namespace
}  // namespace tessera::serve
