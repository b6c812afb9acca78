#include "serve/plan/serve_estimate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/rounding.h"
#include "compile/program/instruction_cost.h"
#include "compile/step.h"

namespace tessera::serve {
namespace {

// What the Programs of stages that are equal have in common.
struct CompiledStage {
  RankBytes bytes;
  int64_t weight_bytes = 0, expert_bytes = 0;
  std::vector<FrameWork> frames;
};

FrameWork work_of(const Program& program) {
  FrameWork work;
  for (const Instruction& instruction : program.instructions) {
    const InstructionCost cost = cost_of(program, instruction);
    work.flops += cost.flops;
    work.bytes += cost.bytes_read + cost.bytes_written;
  }
  work.calls = calls_of(program);
  for (const ArenaKind arena :
       {ArenaKind::kActivations, ArenaKind::kCommunication, ArenaKind::kWorkspace}) {
    work.room_bytes += program.arena_bytes[static_cast<size_t>(arena)];
  }
  return work;
}

// A frame looks up a few rows of the embedding, which is not read as a whole but where it is the
// head as well.
bool is_table(const Bucket& bucket, const StageLayout& stages, bool tied) {
  return bucket.unit == 0 && !(tied && stages.stages() == 1);
}

void count_weights(const StepGraph& step, const Program& program, CompiledStage& stage) {
  stage.weight_bytes = stage.expert_bytes = 0;
  for (size_t b = 0; b < program.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    const BufferId id = program.buckets[b].weights;
    if (id == kNoBuffer || is_table(bucket, step.stages, step.spec.model.tied)) continue;
    (bucket.experts ? stage.expert_bytes : stage.weight_bytes) += program.buffer(id).bytes();
  }
}

// Stages of one kind are equal.
struct StageKey {
  int64_t layers = 0;
  bool first = false, last = false;
  friend auto operator<=>(const StageKey&, const StageKey&) = default;
};

class Compiler {
 public:
  explicit Compiler(const ServeOutline& of) : outline(of) {}

  const ServeOutline& outline;
  std::vector<StageKey> keys;  // by stage
  std::map<StageKey, CompiledStage> stages;
  Mesh mesh;
  std::array<int, 2> pipeline_ends = {};
  int64_t num_parameters = 0;

  void compile(const FrameBucket& bucket, int64_t num_pages) {
    const StepGraph step = build_serve_step(outline.spec, outline.step_of(bucket, num_pages));
    if (keys.empty()) lay_out(step);
    std::map<StageKey, bool> done;
    for (size_t s = 0; s < keys.size(); ++s) {
      if (std::exchange(done[keys[s]], true)) continue;
      const Program program = lower(step, first_rank(s));
      pipeline_ends = program.pipeline_ends;
      CompiledStage& stage = stages[keys[s]];
      stage.bytes.include(program);
      stage.frames.push_back(work_of(program));
      count_weights(step, program, stage);
    }
  }
  [[nodiscard]] int first_rank(size_t stage) const {
    return static_cast<int>(static_cast<int64_t>(stage) * (mesh.world() / std::ssize(keys)));
  }
  // What each rank takes.
  [[nodiscard]] std::vector<RankBytes> ranks() const {
    std::vector<RankBytes> all;
    for (const StageKey& key : keys) {
      all.insert(all.end(), static_cast<size_t>(mesh.world() / std::ssize(keys)),
                 stages.at(key).bytes);
    }
    return all;
  }

 private:
  void lay_out(const StepGraph& step) {
    mesh = step.mesh;
    num_parameters = step.layout.num_parameters;
    const std::vector<int64_t> blocks = blocks_of_stages(step.stages);
    for (size_t s = 0; s < blocks.size(); ++s) {
      keys.push_back({blocks[s], s == 0, s + 1 == blocks.size()});
    }
  }
};

// Caches alone depend on the number of pages; every Program has all of its rank.
void give_pages(Compiler& compiler, int64_t num_pages) {
  const ServeOutline& outline = compiler.outline;
  const StepGraph step =
      build_serve_step(outline.spec, outline.step_of(outline.buckets.front(), num_pages));
  constexpr auto kCache = static_cast<size_t>(ArenaKind::kCache);
  for (size_t s = 0; s < compiler.keys.size(); ++s) {
    CompiledStage& stage = compiler.stages.at(compiler.keys[s]);
    if (s > 0 && compiler.keys[s] == compiler.keys[s - 1]) continue;
    stage.bytes.arenas[kCache] = lower(step, compiler.first_rank(s)).arena_bytes[kCache];
  }
}

StageEstimate stage_estimate(const Compiler& compiler, size_t s, int64_t first_layer,
                             int64_t num_pages) {
  const StageKey& key = compiler.keys[s];
  const CompiledStage& compiled = compiler.stages.at(key);
  const ModelSpec& model = compiler.outline.spec.model;
  StageEstimate stage;
  stage.first_rank = compiler.first_rank(s);
  stage.ranks = compiler.mesh.world() / std::ssize(compiler.keys);
  stage.first_layer = first_layer;
  stage.layers = key.layers;
  stage.has_embedding = key.first;
  stage.has_head = key.last;
  stage.bytes = compiled.bytes;
  stage.page_bytes = compiled.bytes.at(ArenaKind::kCache) / num_pages;
  stage.weight_bytes = compiled.weight_bytes;
  stage.expert_bytes = compiled.expert_bytes;
  // A product with the keys and one with the values, two operations for each column.
  stage.flops_per_pair =
      4 * key.layers * model.head_dim * model.heads / compiler.mesh.size(Axis::kTp);
  stage.frames = compiled.frames;
  return stage;
}

}  // namespace

int64_t ServeEstimate::total_bytes() const {
  int64_t total = 0;
  for (const StageEstimate& stage : stages) total += stage.ranks * stage.bytes.total();
  return total;
}

int64_t ServeEstimate::most_sequences(int64_t context) const {
  return shape.num_pages / ceil_div(std::max<int64_t>(1, context), shape.page_size);
}

const StageEstimate& ServeEstimate::heaviest() const {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const StageEstimate& a, const StageEstimate& b) {
                             return a.bytes.total() < b.bytes.total();
                           });
}

const StageEstimate& ServeEstimate::stage_of(int rank) const {
  return stages[static_cast<size_t>(mesh.coord(rank, Axis::kPp))];
}

std::vector<Traffic> ServeEstimate::traffic(size_t bucket, int rank) const {
  return traffic_of(stage_of(rank).frames[bucket].calls, mesh, pipeline_ends, rank);
}

ServeEstimate estimate_serving(const RunSpec& model, const ServeOptions& options) {
  const ServeOutline outline = outline_serving(model, options);
  Compiler compiler(outline);
  const int64_t least = outline.least_pages;
  const int64_t asked = options.num_pages > 0 ? options.num_pages : least;
  require_enough_pages(outline);
  for (const FrameBucket& bucket : outline.buckets) compiler.compile(bucket, asked);
  ServeEstimate estimate;
  int64_t pages = asked;
  if (options.num_pages == 0) {
    pages = pages_that_fit(outline, compiler.ranks(), least);
    estimate.fits = pages >= least;
    pages = std::max(pages, least);
    if (pages != least) give_pages(compiler, pages);
  } else {
    estimate.fits = have_memory(options, compiler.ranks());
  }
  estimate.options = options;
  estimate.spec = outline.spec;
  estimate.shape = outline.shape;
  estimate.shape.num_pages = pages;
  estimate.buckets = outline.buckets;
  estimate.num_parameters = compiler.num_parameters;
  estimate.mesh = compiler.mesh;
  estimate.pipeline_ends = compiler.pipeline_ends;
  estimate.splits_kv_heads = splits_kv_heads(outline.spec.model, compiler.mesh);
  int64_t layer = 0;
  for (size_t s = 0; s < compiler.keys.size(); ++s) {
    estimate.stages.push_back(stage_estimate(compiler, s, layer, pages));
    layer += estimate.stages.back().layers;
    estimate.page_bytes += estimate.stages.back().ranks * estimate.stages.back().page_bytes;
  }
  return estimate;
}

}  // namespace tessera::serve
