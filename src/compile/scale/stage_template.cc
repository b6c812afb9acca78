#include "compile/scale/stage_template.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text/text.h"
#include "compile/lower/arena_layout.h"
#include "compile/lower/lowering.h"
#include "compile/model/loss_chunks.h"
#include "compile/program/memory_parts.h"
#include "compile/staged_step.h"
#include "spec/recompute.h"

namespace tessera {
namespace {

// Up to here a stage is compiled as it is.
constexpr int64_t kMostBlocks = 10;
// The same for a run of one micro-batch. Its gradients lie among its activations: blocks that have
// gone back leave gradients where their activations were, and the peak moves from the beginning of
// the backward to its end at some number of blocks that small stages do not show.
constexpr int64_t kMostBlocksOfOneMicroBatch = 512;

// Up to here all chunks of the loss are compiled; else, so many and two of one more each.
constexpr int64_t kMostLossChunks = 16;
constexpr int64_t kFewLossChunks = 6;
// The same where their memory does not lie on a line.
constexpr int64_t kMostCompiledLossChunks = 1024;

// A small pipeline around one stage.
struct Surroundings {
  std::vector<int64_t> blocks;  // by stage
  int stage = 0;                // the one that is meant
};

// Enough neighbours to tell who sends what to whom.
Surroundings around(const StageKind& kind) {
  if (kind.first && kind.last) return {{kind.blocks}, 0};
  if (kind.first) return {{kind.blocks, 1, 1}, 0};
  const int64_t before = kind.experts_before ? 1 : 0;
  if (kind.last) return {{before, before, kind.blocks}, 2};
  return {{before, kind.blocks, 1, 1}, 1};
}

// All forwards, then all backwards; the stage that is meant is cut as `kind` says.
PipelineSchedule schedule_of(const StageKind& kind, const Surroundings& pipeline) {
  PipelineSchedule schedule;
  schedule.name = "template";
  schedule.stages = static_cast<int>(pipeline.blocks.size());
  schedule.ranks = schedule.stages;
  schedule.micro_batches = static_cast<int>(kind.micro_batches);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    schedule.rank_of_stage.push_back(stage);
    std::vector<StageAction> actions;
    const StageCut cut = stage == pipeline.stage ? kind.cut : StageCut::kTwo;
    const auto all = [&](StagePass pass) {
      for (int m = 0; m < schedule.micro_batches; ++m) actions.push_back({pass, stage, m});
    };
    if (cut == StageCut::kWhole) {
      for (int m = 0; m < schedule.micro_batches; ++m) {
        actions.push_back({StagePass::kForward, stage, m});
        actions.push_back({StagePass::kBackward, stage, m});
      }
    } else {
      all(StagePass::kForward);
      if (cut == StageCut::kTwo) all(StagePass::kBackward);
      if (cut == StageCut::kThree) all(StagePass::kInputGrad), all(StagePass::kWeightGrad);
    }
    schedule.actions.push_back(std::move(actions));
  }
  return schedule;
}

// Runs and parts of more blocks than the stage has are those of all it has.
std::string recompute_for(const std::string& text, int64_t blocks) {
  constexpr std::string_view kEvery = "every-";
  std::string result;
  for (const std::string_view part : split(text, '+')) {
    if (!result.empty()) result += '+';
    const size_t colon = std::min(part.find(':'), part.size());
    const std::string_view choice = part.substr(0, colon);
    if (choice.starts_with(kEvery)) {
      const int64_t given = std::stoll(std::string(choice.substr(kEvery.size())));
      result +=
          fmt::format("{}{}", kEvery, std::clamp<int64_t>(given, 1, std::max<int64_t>(1, blocks)));
    } else {
      result += choice;
    }
    if (colon == part.size()) continue;
    const int64_t size = std::stoll(std::string(part.substr(colon + 1)));
    result += fmt::format(":{}", std::clamp<int64_t>(size, 1, std::max<int64_t>(1, blocks)));
  }
  return result;
}

RunSpec spec_of(const RunSpec& whole, const StageKind& kind, const Surroundings& pipeline) {
  RunSpec spec = whole;
  spec.model.layers = 0;
  for (const int64_t blocks : pipeline.blocks) spec.model.layers += blocks;
  spec.parallel.pp = static_cast<int64_t>(pipeline.blocks.size());
  spec.parallel.stage_layers = pipeline.blocks;
  spec.parallel.recompute = recompute_for(kind.recompute, kind.blocks);
  spec.train.global_batch = kind.micro_batches * spec.train.micro_batch * spec.parallel.replicas();
  return spec;
}

StageLayout stages_of(const StageKind& kind, const Surroundings& pipeline) {
  StageLayout plan;
  plan.schedule = schedule_of(kind, pipeline);
  plan.versions = plan_versions(plan.schedule, plan.schedule.micro_batches, VersionRule::kNewest);
  plan.stage_of_unit.push_back(0);
  for (int stage = 0; stage < plan.stages(); ++stage) {
    for (int64_t i = 0; i < pipeline.blocks[static_cast<size_t>(stage)]; ++i) {
      plan.stage_of_unit.push_back(stage);
    }
  }
  plan.stage_of_unit.push_back(plan.stages() - 1);
  return plan;
}

void add(ArenaBytes& sum, const ArenaBytes& more, int64_t times = 1) {
  for (size_t a = 0; a < sum.size(); ++a) sum[a] += more[a] * times;
}

// Takes a template apart from a compiled rank.
class Measurement {
 public:
  Measurement(const StepGraph& step, int stage, int rank)
      : step_(step), stage_(stage), lowering_(step, rank), program_(lowering_.run()) {}

  StageTemplate run() {
    find_rank_wide();
    find_links();
    measure_fixed();
    measure_blocks();
    count_calls();
    result_.kernel_scratch = lowering_.kernel_scratch_bytes();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const StorageMap& map() const { return lowering_.storage(); }
  [[nodiscard]] const Storage& storage(StorageId id) const {
    return map().storages[static_cast<size_t>(id)];
  }

  void add_rank_wide(RankStorage::Role role, const Slot& slot, int64_t bytes) {
    if (!slot.valid() || !rank_wide_.insert(slot.storage).second) return;
    result_.rank_wide.push_back({role, storage(slot.storage).arena, bytes});
  }
  void find_rank_wide();
  void find_links();
  void add_link(const StageCrossing& crossing, bool incoming);
  [[nodiscard]] Channel channel_of(const StageCrossing& crossing) const;
  int passing_index(StorageId id);
  void measure_fixed();
  void measure_blocks();
  [[nodiscard]] ArenaBytes bytes_with_lanes(int lanes) const;
  void count_calls();
  [[nodiscard]] int tied_copy() const;

  const StepGraph& step_;
  int stage_;
  Lowering lowering_;
  Program program_;
  StageTemplate result_;
  std::set<StorageId> rank_wide_;
  std::map<StorageId, int> passing_;
  ArenaBytes fixed_ = {};  // persistent and passing, of this rank
};

void Measurement::find_rank_wide() {
  using Role = RankStorage::Role;
  const StorageMap& m = map();
  const auto input = [&](Role role, ValueId value) {
    const auto found = m.slots.find(value);
    if (found == m.slots.end()) return;
    add_rank_wide(role, found->second, storage(found->second.storage).micro_batch_stride);
  };
  const auto whole = [&](Role role, const Slot& slot) {
    if (slot.valid()) add_rank_wide(role, slot, storage(slot.storage).bytes);
  };
  input(Role::kTokens, step_.forward.tokens);
  input(Role::kLabels, step_.forward.labels);
  if (m.document_starts.valid()) {
    add_rank_wide(Role::kDocuments, m.document_starts,
                  storage(m.document_starts.storage).micro_batch_stride);
  }
  whole(Role::kCommon, m.rope_cos);
  whole(Role::kCommon, m.rope_sin);
  whole(Role::kLoss, m.loss);
  add_rank_wide(Role::kMetrics, m.metrics,
                storage(m.metrics.storage).bytes -
                    static_cast<int64_t>(step_.layout.buckets.size()) * size_bytes(DType::kF64));
  if (m.router_load.valid()) {
    add_rank_wide(Role::kRouterLoad, m.router_load,
                  storage(m.router_load.storage).bytes / step_.spec.model.layers);
  }
}

Channel Measurement::channel_of(const StageCrossing& crossing) const {
  if (crossing.to_stage > crossing.from_stage) return Channel::kForward;
  // What the last stage sends to others than its neighbour, it sends to all.
  int receivers = 0;
  for (const StageCrossing& other : step_.pipeline.crossings) {
    receivers += other.value == crossing.value ? 1 : 0;
  }
  return receivers > 1 ? Channel::kFromLast : Channel::kBackward;
}

int Measurement::passing_index(StorageId id) {
  const auto [found, fresh] = passing_.try_emplace(id, static_cast<int>(result_.passing.size()));
  if (fresh) {
    const Storage& held = storage(id);
    TESSERA_CHECK(held.kind == StorageKind::kPassing, "'{}' does not pass", held.name);
    result_.passing.push_back({held.arena, arena_aligned(held.bytes), {}});
  }
  return found->second;
}

void Measurement::add_link(const StageCrossing& crossing, bool incoming) {
  std::vector<StageLink>& links = incoming ? result_.incoming : result_.outgoing;
  const Channel channel = channel_of(crossing);
  const Slot& slot = map().slots.at(crossing.value);
  const auto number = std::count_if(links.begin(), links.end(),
                                    [&](const StageLink& l) { return l.channel == channel; });
  links.push_back({channel, static_cast<int>(number),
                   incoming ? crossing.to_part : crossing.from_part, passing_index(slot.storage),
                   slot.bytes()});
}

void Measurement::find_links() {
  std::set<ValueId> sent;
  for (const StageCrossing& crossing : step_.pipeline.crossings) {
    if (crossing.to_stage == stage_) add_link(crossing, /*incoming=*/true);
    if (crossing.from_stage == stage_ && sent.insert(crossing.value).second) {
      add_link(crossing, /*incoming=*/false);
    }
  }
  const StageParts& stage = step_.pipeline.stages[static_cast<size_t>(stage_)];
  for (size_t part = 0; part < stage.parts.size(); ++part) {
    std::set<int> touched;
    for (const size_t i : stage.parts[part]) {
      const Node& node = step_.graph().nodes()[i];
      for (const auto* values : {&node.inputs, &node.outputs}) {
        for (const ValueId v : *values) {
          const auto found = passing_.find(map().slots.at(v).storage);
          if (found != passing_.end()) touched.insert(found->second);
        }
      }
    }
    for (const int p : touched) {
      result_.passing[static_cast<size_t>(p)].parts.push_back(static_cast<int>(part));
    }
  }
}

int Measurement::tied_copy() const {
  for (size_t b = 0; b < step_.layout.buckets.size(); ++b) {
    if (step_.layout.buckets[b].copy_of >= 0 && map().buckets[b].weights.valid()) {
      return static_cast<int>(b);
    }
  }
  return -1;
}

void Measurement::measure_fixed() {
  const StorageId scratch = static_cast<StorageId>(map().storages.size()) - 1;
  for (size_t i = 0; i < map().storages.size(); ++i) {
    const Storage& held = map().storages[i];
    const bool passing = held.kind == StorageKind::kPassing;
    if (held.kind != StorageKind::kPersistent && !passing) continue;
    const auto arena = static_cast<size_t>(held.arena);
    const int64_t bytes = arena_aligned(held.bytes) * held.instances;
    fixed_[arena] += bytes;
    const auto id = static_cast<StorageId>(i);
    if (!passing && id != scratch && !rank_wide_.contains(id)) result_.state[arena] += bytes;
  }
  const int copy = tied_copy();
  if (copy < 0) return;
  const BucketSlots& slots = map().buckets[static_cast<size_t>(copy)];
  for (const Slot* slot : {&slots.weights, &slots.m, &slots.v, &slots.master}) {
    if (!slot->valid()) continue;
    const Storage& held = storage(slot->storage);
    result_.tied_state[static_cast<size_t>(held.arena)] += arena_aligned(held.bytes);
  }
}

ArenaBytes Measurement::bytes_with_lanes(int lanes) const {
  std::vector<Storage> storages = map().storages;
  ArenaBytes bytes;
  place_storages(storages, {{stage_, lanes}}, bytes);
  add(bytes, fixed_, -1);
  return bytes;
}

void Measurement::measure_blocks() {
  result_.merged = memory_parts(program_, bytes_with_lanes(1));
  result_.shared = bytes_with_lanes(2);
  result_.lane = bytes_with_lanes(3);
  add(result_.lane, result_.shared, -1);
  add(result_.shared, result_.lane, -2);
}

void Measurement::count_calls() {
  const int copy = tied_copy();
  const BufferId copied = copy < 0 ? kNoBuffer : program_.buckets[static_cast<size_t>(copy)].full;
  for (const Instruction& instruction : program_.instructions) {
    if (!has_collectives(instruction.stream)) continue;
    const bool of_rank = instruction.group == AxisSet::all();  // the metrics, once for all stages
    if (of_rank && instruction.micro_batch < 0) continue;
    const CommCall call = call_of(program_, instruction);
    ++result_.per_step[call];
    // One like all the others; of fewer than three there is none.
    if (instruction.micro_batch == 1 && program_.micro_batches == kTemplateMicroBatches) {
      ++result_.per_micro_batch[call];
    }
    const bool gathers_copy =
        instruction.micro_batch < 0 && copied != kNoBuffer && instruction.outputs[0] == copied;
    if (instruction.op == OpKind::kTieSum || gathers_copy) ++result_.tied_per_step[call];
  }
}

}  // namespace

namespace {

// As it is but for its chunks of the loss: at most so many; 0: all.
StageTemplate measure_stage(const RunSpec& spec, const StageKind& kind, int64_t most_loss_chunks) {
  const Surroundings pipeline = around(kind);
  const RunSpec small = spec_of(spec, kind, pipeline);
  const StepGraph step = build_template_step(small, stages_of(kind, pipeline), most_loss_chunks);
  TESSERA_CHECK(stage_cuts(step.stages.schedule)[static_cast<size_t>(pipeline.stage)] == kind.cut,
                "the template of a stage is cut in another way");
  const auto ranks_per_stage = static_cast<int>(step.mesh.world() / small.parallel.pp);
  return Measurement(step, pipeline.stage, pipeline.stage * ranks_per_stage).run();
}

}  // namespace

// Chunks of the loss repeat like blocks, except in a stage that has none.
StageTemplate compile_stage(const RunSpec& spec, const StageKind& kind) {
  const int64_t chunks = loss_chunks(spec);
  if (chunks <= kMostLossChunks) return measure_stage(spec, kind, 0);
  if (!kind.last) return measure_stage(spec, kind, kFewLossChunks);
  std::array<StageTemplate, 3> points;
  for (size_t i = 0; i < points.size(); ++i) {
    points[i] = measure_stage(spec, kind, kFewLossChunks + static_cast<int64_t>(i));
  }
  StageTemplate line;
  if (extrapolate({&points[0], &points[1], &points[2]}, chunks - kFewLossChunks, line)) return line;
  require_config(chunks <= kMostCompiledLossChunks,
                 "a micro-batch of {} tokens is {} chunks of the loss, more than the {} that are "
                 "planned one by one; use train.loss_chunk = {} or more, or a smaller micro_batch",
                 spec.train.micro_batch * spec.train.seq_len, chunks, kMostCompiledLossChunks,
                 spec.train.loss_chunk * ceil_div(chunks, kMostCompiledLossChunks));
  return measure_stage(spec, kind, 0);
}

namespace {

// Whether c - b = b - a; then `result` is a + (b - a) * at.
bool on_line(int64_t a, int64_t b, int64_t c, int64_t at, int64_t& result) {
  result = a + (b - a) * at;
  return c - b == b - a;
}

bool on_line(const ArenaBytes& a, const ArenaBytes& b, const ArenaBytes& c, int64_t at,
             ArenaBytes& result) {
  bool line = true;
  for (size_t i = 0; i < a.size(); ++i) line = on_line(a[i], b[i], c[i], at, result[i]) && line;
  return line;
}

int64_t times(const CallCounts& counts, const CommCall& call) {
  const auto found = counts.find(call);
  return found == counts.end() ? 0 : found->second;
}

bool on_line(const CallCounts& a, const CallCounts& b, const CallCounts& c, int64_t at,
             CallCounts& result) {
  CallCounts keys = a;
  keys.insert(b.begin(), b.end());
  keys.insert(c.begin(), c.end());
  bool line = true;
  for (const auto& [call, unused] : keys) {
    int64_t count = 0;
    line = on_line(times(a, call), times(b, call), times(c, call), at, count) && line;
    if (count != 0) result[call] = count;
  }
  return line;
}

}  // namespace

bool extrapolate(const std::array<const StageTemplate*, 3>& points, int64_t at,
                 StageTemplate& result) {
  const auto& [a, b, c] = points;
  result = *c;  // what does not depend on the number of blocks
  result.per_step.clear();
  result.per_micro_batch.clear();
  const bool same =
      a->passing == b->passing && b->passing == c->passing && a->incoming == b->incoming &&
      b->incoming == c->incoming && a->outgoing == b->outgoing && b->outgoing == c->outgoing &&
      a->rank_wide == b->rank_wide && b->rank_wide == c->rank_wide &&
      a->kernel_scratch == b->kernel_scratch && b->kernel_scratch == c->kernel_scratch &&
      a->tied_state == c->tied_state && a->tied_per_step == c->tied_per_step;
  return same && on_line(a->state, b->state, c->state, at, result.state) &&
         on_line(a->lane, b->lane, c->lane, at, result.lane) &&
         on_line(a->shared, b->shared, c->shared, at, result.shared) &&
         on_line(a->merged, b->merged, c->merged, at, result.merged) &&
         on_line(a->per_step, b->per_step, c->per_step, at, result.per_step) &&
         on_line(a->per_micro_batch, b->per_micro_batch, c->per_micro_batch, at,
                 result.per_micro_batch);
}

namespace {

// A stage with all that is compiled around it, as often as compile_stage() does.
double work_of(const RunSpec& spec, const StageKind& kind) {
  const int64_t chunks = loss_chunks(spec);
  const bool as_they_are = chunks <= kMostLossChunks;
  const double times = as_they_are || !kind.last ? 1 : 3;
  return times * estimated_work(spec_of(spec, kind, around(kind)), 1,
                                as_they_are ? chunks : kFewLossChunks);
}

// What would make it less, of what the run says.
std::string cheaper(const RunSpec& spec, const StageKind& kind) {
  std::string ways = "more stages (parallel.pp) or fewer layers";
  if (kind.micro_batches == 1) ways += ", or a train.global_batch of two micro-batches or more";
  if (kind.recompute.starts_with("every-")) ways += ", or a smaller K in recompute";
  if (spec.parallel.cp > 2 && spec.parallel.cp_kind == ContextKind::kRing) {
    ways += ", or cp_kind = \"allgather\"";
  }
  if (spec.parallel.zero == 3 && spec.parallel.prefetch > 1) ways += ", or prefetch = 1";
  return ways;
}

}  // namespace

void StageTemplates::require_affordable(std::span<const StageKind> kinds) const {
  double work = 0;
  for (const StageKind& kind : kinds) {
    if (!known_.contains(kind)) work += work_of(spec_, kind);
  }
  require_config(work_ + work <= most_work_,
                 "stages of {} layers have about {:.3g} instructions to plan, and {:.3g} of the "
                 "{:.0f} of a request are left; use {}",
                 kinds.back().blocks, work, most_work_ - work_, kMostTemplateWork,
                 cheaper(spec_, kinds.back()));
}

const StageTemplate& StageTemplates::compiled(const StageKind& kind) {
  const auto found = known_.find(kind);
  if (found != known_.end()) return found->second;
  require_affordable({&kind, 1});
  work_ += work_of(spec_, kind);
  ++compiled_;
  return known_.emplace(kind, compile_stage(spec_, kind)).first->second;
}

const StageTemplate& StageTemplates::of(const StageKind& kind) {
  if (const auto found = known_.find(kind); found != known_.end()) return found->second;
  // Blocks repeat with the period of recomputation and of gathers, after the parts that have a
  // fixed size and after those that the beginning and the end of a stage see.
  const std::vector<RecomputePart> parts = parse_recompute(kind.recompute, spec_.model.layers);
  const ParallelSpec& parallel = spec_.parallel;
  const bool gathers = parallel.zero == 3;
  // At least one: a stage may be the embedding or the head alone.
  const int64_t together = gathers ? std::clamp<int64_t>(kind.blocks, 1, parallel.unit_blocks) : 1;
  int64_t least = 4 + (gathers ? std::min(parallel.prefetch, kind.blocks) * together : 0);
  for (size_t p = 0; p + 1 < parts.size(); ++p) least += parts[p].size;
  const int64_t period = std::lcm(std::max<int64_t>(1, parts.back().choice.blocks), together);
  int64_t from = kind.blocks % period;
  const bool once = kind.micro_batches == 1;
  const int64_t most = once ? kMostBlocksOfOneMicroBatch : kMostBlocks;
  if (once) least = std::max(least, most - 2 * period);
  if (from < least) from += ceil_div(least - from, period) * period;
  const int64_t largest = from + 2 * period;
  if (kind.blocks <= std::max(most, largest)) return compiled(kind);
  std::array<StageKind, 3> smaller = {kind, kind, kind};
  for (size_t i = 0; i < 3; ++i) smaller[i].blocks = from + static_cast<int64_t>(i) * period;
  require_affordable(smaller);  // all of them, before the first
  std::array<const StageTemplate*, 3> points = {};
  for (size_t i = 0; i < 3; ++i) points[i] = &compiled(smaller[i]);
  StageTemplate line;
  if (!extrapolate(points, (kind.blocks - from) / period, line)) return compiled(kind);
  return known_.emplace(kind, std::move(line)).first->second;
}

}  // namespace tessera
