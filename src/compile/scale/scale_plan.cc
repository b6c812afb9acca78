#include "compile/scale/scale_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "compile/lower/arena_layout.h"
#include "compile/lower/group_buckets.h"
#include "compile/lower/instances.h"
#include "compile/lower/lowering.h"
#include "compile/model/limits.h"
#include "compile/model/loss_chunks.h"
#include "compile/program/memory_parts.h"
#include "compile/step.h"
#include "spec/recompute.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

using Kind = PipelineItem::Kind;

// Micro-batches times stages: the order of their parts and messages takes half a GiB.
constexpr int64_t kMostOrderedCells = int64_t{1} << 21;
constexpr double kWorkOfCell = 0.5;

void add(ArenaBytes& sum, const ArenaBytes& more, int64_t times = 1) {
  for (size_t a = 0; a < sum.size(); ++a) sum[a] += more[a] * times;
}

void add(CallCounts& sum, const CallCounts& more, int64_t times) {
  if (times == 0) return;
  for (const auto& [call, count] : more) {
    const int64_t now = sum[call] += count * times;
    if (now == 0) sum.erase(call);
  }
}

// Memory and calls of each pipeline rank from the templates of its stages.
class Composer {
 public:
  Composer(const ScalePlan& plan, const StageLayout& stages, StageTemplates& templates)
      : plan_(plan), schedule_(stages.schedule), micro_batches_(schedule_.micro_batches) {
    const std::vector<StageCut> cuts = stage_cuts(schedule_);
    bool experts_before = plan.spec.model.experts == 0;  // no loss of routers to tell stages apart
    for (size_t s = 0; s < cuts.size(); ++s) {
      StageKind kind;
      kind.blocks = plan.stage_blocks[s];
      kind.first = s == 0;
      kind.last = s + 1 == cuts.size();
      kind.experts_before = experts_before || s == 0;
      experts_before = experts_before || kind.blocks > 0;
      kind.cut = cuts[s];
      kind.recompute = recompute_of_stage(plan.spec.parallel.recompute, static_cast<int64_t>(s));
      kind.micro_batches = std::min<int64_t>(micro_batches_, kTemplateMicroBatches);
      stages_.push_back(&templates.of(kind));
    }
    cross();
    items_ = order_items(schedule_, cuts, crossings_);
  }

  ClassTotals compose(int pipeline_rank) const;
  // Scratch of the kernels of a pipeline rank.
  [[nodiscard]] int64_t kernel_scratch(int pipeline_rank) const {
    int64_t most = 0;
    for (const int s : stages_of(pipeline_rank)) {
      most = std::max(most, stages_[static_cast<size_t>(s)]->kernel_scratch);
    }
    return most;
  }
  [[nodiscard]] std::vector<int> stages_of(int pipeline_rank) const {
    std::vector<int> stages;
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (schedule_.rank_of_stage[s] == pipeline_rank) stages.push_back(static_cast<int>(s));
    }
    return stages;
  }

 private:
  struct Ends {
    StageLink sent, received;
  };

  // By micro-batch; empty until the first is included.
  using MicroBatchSpans = std::vector<ItemSpan>;
  void include(MicroBatchSpans& spans, int micro_batch, int item) const {
    if (spans.empty()) spans.resize(static_cast<size_t>(micro_batches_));
    ItemSpan& span = spans[static_cast<size_t>(micro_batch)];
    span.micro_batch = micro_batch;
    span.include(item);
  }

  void cross();
  void cross_into(int stage, bool forward);
  [[nodiscard]] bool local(size_t crossing) const {
    return rank_of(crossings_[crossing].from_stage) == rank_of(crossings_[crossing].to_stage);
  }
  [[nodiscard]] int rank_of(int stage) const {
    return schedule_.rank_of_stage[static_cast<size_t>(stage)];
  }
  void add_rank_wide(const std::vector<int>& stages, ClassTotals& plan) const;
  void add_passing(int pipeline_rank, ClassTotals& plan) const;
  void add_activations(const std::vector<int>& stages, ClassTotals& plan) const;
  void add_calls(int pipeline_rank, ClassTotals& plan) const;
  void count_in_flight(int pipeline_rank, ClassTotals& plan) const;
  // Both ends of a tied weight.
  [[nodiscard]] bool shares_tied(const std::vector<int>& stages) const {
    return plan_.spec.model.tied && stages_.size() > 1 && stages.front() == 0 &&
           stages.back() + 1 == static_cast<int>(stages_.size());
  }

  const ScalePlan& plan_;
  const PipelineSchedule& schedule_;
  int micro_batches_;
  std::vector<const StageTemplate*> stages_;
  std::vector<StageCrossing> crossings_;
  std::vector<Ends> ends_;  // of each crossing
  std::vector<std::vector<PipelineItem>> items_;
};

// In the order in which a graph would need them: forward from stage to stage, then back.
void Composer::cross() {
  const auto last = static_cast<int>(stages_.size()) - 1;
  for (int stage = 1; stage <= last; ++stage) cross_into(stage, /*forward=*/true);
  for (int stage = last - 1; stage >= 0; --stage) cross_into(stage, /*forward=*/false);
}

void Composer::cross_into(int stage, bool forward) {
  for (const StageLink& received : stages_[static_cast<size_t>(stage)]->incoming) {
    if ((received.channel == Channel::kForward) != forward) continue;
    int from = forward ? stage - 1 : stage + 1;
    if (received.channel == Channel::kFromLast) from = static_cast<int>(stages_.size()) - 1;
    const std::vector<StageLink>& sent = stages_[static_cast<size_t>(from)]->outgoing;
    const auto link = std::find_if(sent.begin(), sent.end(), [&](const StageLink& l) {
      return l.channel == received.channel && l.number == received.number;
    });
    TESSERA_CHECK(link != sent.end(), "stage {} does not send what stage {} needs", from, stage);
    crossings_.push_back({kNoValue, from, stage, link->part, received.part});
    ends_.push_back({*link, received});
  }
}

void Composer::count_in_flight(int pipeline_rank, ClassTotals& plan) const {
  std::vector<MicroBatchSpans> by_stage(stages_.size());
  const std::vector<PipelineItem>& items = items_[static_cast<size_t>(pipeline_rank)];
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind != Kind::kPart) continue;
    include(by_stage[static_cast<size_t>(items[i].stage)], items[i].micro_batch,
            static_cast<int>(i));
  }
  for (size_t stage = 0; stage < by_stage.size(); ++stage) {
    if (by_stage[stage].empty()) continue;
    plan.in_flight[static_cast<int>(stage)] =
        most_at_once(number_spans(std::move(by_stage[stage])));
  }
}

void Composer::add_rank_wide(const std::vector<int>& stages, ClassTotals& plan) const {
  using Role = RankStorage::Role;
  const auto buckets = [&] {
    // Embedding, blocks and head of a model of one block.
    int64_t ends = 0;
    int64_t block = 0;
    for (const Bucket& bucket : plan_.axes.buckets) (bucket.unit == 1 ? block : ends) += 1;
    return ends + block * plan_.spec.model.layers;
  };
  for (const int s : stages) {
    for (const RankStorage& storage : stages_[static_cast<size_t>(s)]->rank_wide) {
      const bool of_stage = storage.role == Role::kTokens || storage.role == Role::kLabels ||
                            storage.role == Role::kLoss;
      if (!of_stage && s != stages.front()) continue;
      int64_t bytes = storage.bytes;
      if (storage.role == Role::kTokens || storage.role == Role::kLabels ||
          storage.role == Role::kDocuments) {
        bytes *= micro_batches_;
      }
      if (storage.role == Role::kMetrics) bytes += buckets() * size_bytes(DType::kF64);
      if (storage.role == Role::kRouterLoad) bytes *= plan_.spec.model.layers;
      plan.memory[static_cast<size_t>(storage.arena)] += arena_aligned(bytes);
      if (storage.role != Role::kMetrics || plan_.mesh.world() == 1) continue;
      ++plan.calls[{{AxisSet::all(), false},
                    OpKind::kCast,
                    CastKind::kAllReduce,
                    bytes / size_bytes(DType::kF64),
                    size_bytes(DType::kF64)}];
    }
  }
}

void Composer::add_passing(int pipeline_rank, ClassTotals& plan) const {
  using Key = std::pair<int, int>;  // stage and number of its storage
  // What a stage gets from another one of this rank lies where that one has put it; what several
  // stages of this rank get from the last one lies in one place.
  std::map<Key, Key> moved;
  std::map<int, Key> from_last;
  for (size_t c = 0; c < crossings_.size(); ++c) {
    if (rank_of(crossings_[c].to_stage) != pipeline_rank) continue;
    const StageLink& received = ends_[c].received;
    const Key mine = {crossings_[c].to_stage, received.storage};
    if (local(c)) {
      moved[mine] = {crossings_[c].from_stage, ends_[c].sent.storage};
    } else if (received.channel == Channel::kFromLast) {
      moved[mine] = from_last.try_emplace(received.number, mine).first->second;
    }
  }
  // By stage and storage, where a moved one is at home.
  std::vector<std::vector<MicroBatchSpans>> spans(stages_.size());
  std::vector<std::vector<Key>> home(stages_.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (rank_of(static_cast<int>(s)) != pipeline_rank) continue;
    spans[s].resize(stages_[s]->passing.size());
    for (size_t p = 0; p < spans[s].size(); ++p) {
      const Key key = {static_cast<int>(s), static_cast<int>(p)};
      const auto found = moved.find(key);
      home[s].push_back(found == moved.end() ? key : found->second);
    }
  }
  const auto at_home = [&](int stage, int storage) -> MicroBatchSpans& {
    const Key& at = home[static_cast<size_t>(stage)][static_cast<size_t>(storage)];
    return spans[static_cast<size_t>(at.first)][static_cast<size_t>(at.second)];
  };
  // By stage and part: what it touches.
  std::vector<std::vector<std::vector<MicroBatchSpans*>>> touched(stages_.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    for (size_t p = 0; p < spans[s].size(); ++p) {
      for (const int part : stages_[s]->passing[p].parts) {
        const auto at = static_cast<size_t>(part);
        if (touched[s].size() <= at) touched[s].resize(at + 1);
        touched[s][at].push_back(&at_home(static_cast<int>(s), static_cast<int>(p)));
      }
    }
  }
  const std::vector<PipelineItem>& items = items_[static_cast<size_t>(pipeline_rank)];
  for (size_t i = 0; i < items.size(); ++i) {
    const PipelineItem& item = items[i];
    const auto index = static_cast<int>(i);
    if (item.kind == Kind::kPart) {
      const auto& by_part = touched[static_cast<size_t>(item.stage)];
      const auto part = static_cast<size_t>(item.part);
      if (part >= by_part.size()) continue;
      for (MicroBatchSpans* list : by_part[part]) include(*list, item.micro_batch, index);
      continue;
    }
    const auto c = static_cast<size_t>(item.crossing);
    const bool sends = item.kind == Kind::kSend;
    const int stage = sends ? crossings_[c].from_stage : crossings_[c].to_stage;
    const int storage = sends ? ends_[c].sent.storage : ends_[c].received.storage;
    MicroBatchSpans& list = at_home(stage, storage);
    include(list, item.micro_batch, index);
    if (sends) include(list, item.micro_batch, part_after(items, i));
  }
  for (size_t s = 0; s < spans.size(); ++s) {
    for (size_t p = 0; p < spans[s].size(); ++p) {
      if (spans[s][p].empty()) continue;
      const PassingStorage& storage = stages_[s]->passing[p];
      const int64_t instances = most_at_once(number_spans(std::move(spans[s][p])));
      plan.memory[static_cast<size_t>(storage.arena)] += storage.bytes * instances;
    }
  }
}

void Composer::add_activations(const std::vector<int>& stages, ClassTotals& plan) const {
  if (stages.size() == 1 && plan.in_flight.at(stages.front()) == 1) {
    return add(plan.memory, stages_[static_cast<size_t>(stages.front())]->merged);
  }
  ArenaBytes shared = {};  // parts run one after the other
  for (const int s : stages) {
    const StageTemplate& stage = *stages_[static_cast<size_t>(s)];
    add(plan.memory, stage.lane, plan.in_flight.at(s));
    for (size_t a = 0; a < shared.size(); ++a) shared[a] = std::max(shared[a], stage.shared[a]);
  }
  add(plan.memory, shared);
}

void Composer::add_calls(int pipeline_rank, ClassTotals& plan) const {
  for (size_t c = 0; c < crossings_.size(); ++c) {
    if (local(c)) continue;
    const StageLink& link = ends_[c].sent;
    CommCall call{{Axis::kPp, false}, OpKind::kSend, CastKind::kNothing, link.bytes, 1};
    if (rank_of(crossings_[c].from_stage) == pipeline_rank) plan.calls[call] += micro_batches_;
    call.op = OpKind::kReceive;
    if (rank_of(crossings_[c].to_stage) == pipeline_rank) plan.calls[call] += micro_batches_;
  }
}

ClassTotals Composer::compose(int pipeline_rank) const {
  const std::vector<int> stages = stages_of(pipeline_rank);
  ClassTotals plan;
  count_in_flight(pipeline_rank, plan);
  const int64_t more = std::max<int64_t>(0, micro_batches_ - kTemplateMicroBatches);
  for (const int s : stages) {
    const StageTemplate& stage = *stages_[static_cast<size_t>(s)];
    add(plan.memory, stage.state);
    add(plan.calls, stage.per_step, 1);
    add(plan.calls, stage.per_micro_batch, more);
  }
  if (shares_tied(stages)) {
    const StageTemplate& first = *stages_[static_cast<size_t>(stages.front())];
    const StageTemplate& last = *stages_[static_cast<size_t>(stages.back())];
    add(plan.memory, last.tied_state, -1);
    add(plan.calls, first.tied_per_step, -1);
    add(plan.calls, last.tied_per_step, -1);
  }
  add_rank_wide(stages, plan);
  add_passing(pipeline_rank, plan);
  add_activations(stages, plan);
  add_calls(pipeline_rank, plan);
  return plan;
}

// The norm of the gradient and the update, as a Program of nothing else.
int64_t scratch_of_update(const ScalePlan& plan, const RankClass& ranks,
                          const std::vector<int>& stages) {
  Program program;
  program.threads = static_cast<int>(plan.spec.train.threads);
  std::vector<InstructionPlace> places;
  const auto add_unit = [&](int unit) {
    for (const Bucket& bucket : plan.axes.buckets) {
      if (bucket.unit != unit || bucket.copy_of >= 0) continue;
      if (!ranks.counts(bucket)) continue;
      const int64_t numel = plan.axes.shard_numel(bucket);
      program.buffers.push_back({bucket.name, plan.spec.train.gradient_type(), {numel}});
      Instruction sum;
      sum.op = OpKind::kSumSquares;
      sum.inputs = {static_cast<BufferId>(program.buffers.size()) - 1};
      sum.args.buckets = {{0}};
      program.instructions.push_back(std::move(sum));
      places.push_back({});
    }
  };
  const auto num_stages = static_cast<int>(plan.stage_blocks.size());
  for (const int s : stages) {
    if (s == 0) add_unit(0);
    for (int64_t i = 0; i < plan.stage_blocks[static_cast<size_t>(s)]; ++i) add_unit(1);
    if (s + 1 == num_stages) add_unit(2);
  }
  group_buckets(program, places);
  Instruction update;
  update.op = plan.spec.optimizer.kind == OptimizerKind::kSgd ? OpKind::kSgd : OpKind::kAdamW;
  program.instructions.push_back(std::move(update));
  return instruction_scratch(program, plan.spec.train.device == TrainDevice::kCuda);
}

// Templates have neither versions of weights nor, for one micro-batch, several stages of a rank
// whose gradients go on from one to the other; nor stages that only hand on what they receive.
bool templates_do(const StageLayout& stages, const std::vector<int64_t>& blocks) {
  const bool several = stages.schedule.stages > stages.schedule.ranks;
  for (size_t s = 1; s + 1 < blocks.size(); ++s) {
    if (blocks[s] == 0) return false;
  }
  return !stages.schedule.asynchronous && !(several && stages.schedule.micro_batches == 1);
}

double work_of_classes(const RunSpec& spec, const std::vector<RankClass>& classes) {
  const double places = static_cast<double>(classes.size()) / static_cast<double>(spec.parallel.pp);
  return estimated_work(spec, places, loss_chunks(spec));
}

std::vector<ClassTotals> compile_classes(const RunSpec& spec,
                                         const std::vector<RankClass>& classes) {
  const double work = work_of_classes(spec, classes);
  require_config(
      work <= kMostWholeWork,
      "parallel.schedule = \"{}\" with {} layers and {} micro-batches must be compiled "
      "as a whole to be planned: about {:.3g} instructions to build, and at most {:.0f} are; lower "
      "train.global_batch, or use schedule = \"1f1b\" with layers in every stage",
      spec.parallel.schedule.text(), spec.model.layers, accumulation(spec), work, kMostWholeWork);
  const StepGraph step = build_step(spec, StepKind::kTraining);
  std::vector<ClassTotals> plans;
  for (const RankClass& ranks : classes) {
    const Program program = lower(step, ranks.first_rank);
    plans.push_back({ranks, memory_parts(program), calls_of(program), program.live_micro_batches,
                     program.weight_versions});
  }
  return plans;
}

}  // namespace

int64_t ClassTotals::total_bytes() const {
  int64_t total = 0;
  for (const int64_t bytes : memory) total += bytes;
  return total;
}

std::vector<Traffic> ScalePlan::traffic(const ClassTotals& ranks) const {
  return traffic_of(ranks.calls, mesh, pipeline_ends, ranks.ranks.first_rank);
}

const ClassTotals& ScalePlan::class_of_rank(int rank) const {
  const RankClass one = class_of(mesh, axes, rank);
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassTotals& plan) {
    const RankClass& other = plan.ranks;
    return other.pipeline_rank == one.pipeline_rank && other.counts_split == one.counts_split &&
           other.counts_whole == one.counts_whole && other.counts_experts == one.counts_experts;
  });
  TESSERA_CHECK(found != classes.end(), "rank {} is of no class", rank);
  return *found;
}

std::vector<Traffic> ScalePlan::traffic(int rank) const {
  return traffic_of(class_of_rank(rank).calls, mesh, pipeline_ends, rank);
}

const ClassTotals& ScalePlan::heaviest() const {
  return *std::max_element(
      classes.begin(), classes.end(),
      [](const ClassTotals& a, const ClassTotals& b) { return a.total_bytes() < b.total_bytes(); });
}

double ScalePlanner::work() const {
  double sum = other_work_;
  for (const auto& [key, templates] : templates_) sum += templates.work();
  return sum;
}

int64_t ScalePlanner::compiled_stages() const {
  int64_t sum = 0;
  for (const auto& [key, templates] : templates_) sum += templates.compiled();
  return sum;
}

ScalePlan ScalePlanner::plan(const RunSpec& spec) {
  require_trainable(spec.model);
  require_writable_graph(spec);
  require_config(spec.train.lanes == 0,
                 "train.lanes = {}: a plan of so many ranks, layers and micro-batches is put "
                 "together from templates, which have no lanes; use lanes = 0, or plan fewer",
                 spec.train.lanes);
  const int64_t stages_of_pipeline =
      spec.parallel.pp * std::max<int64_t>(1, spec.parallel.virtual_stages);
  require_config(
      accumulation(spec) <= kMostOrderedCells / stages_of_pipeline,
      "a step has {} micro-batches on {} stages, more than {} can be ordered; use a larger "
      "micro_batch or a smaller global_batch",
      accumulation(spec), stages_of_pipeline, kMostOrderedCells);
  other_work_ += kWorkOfCell * static_cast<double>(accumulation(spec) * stages_of_pipeline);
  require_config(work() <= most_work_,
                 "with this run and those before it there are about {:.3g} instructions to plan, "
                 "and at most {:.0f} are in one request; plan fewer runs at a time",
                 work(), most_work_);
  const StageLayout stages = lay_out_stages(spec, /*training=*/true);
  ScalePlan plan;
  plan.spec = spec;
  plan.mesh = mesh_of(spec.parallel);
  plan.schedule = stages.schedule;
  plan.stage_blocks = blocks_of_stages(stages);
  plan.pipeline_ends = {stages.schedule.rank_of_stage.front(),
                        stages.schedule.rank_of_stage.back()};
  RunSpec small = spec;
  const auto layout_of = [&](int64_t layers) {
    small.model.layers = layers;
    return layout_parameters(small, plan.mesh, spec.model.tied && stages.ends_differ());
  };
  plan.axes = layout_of(1);
  plan.num_parameters =
      plan.axes.num_parameters +
      (spec.model.layers - 1) * (layout_of(2).num_parameters - plan.axes.num_parameters);
  const std::vector<RankClass> classes = rank_classes(plan.mesh, plan.axes);
  // Blocks of a template are all alike.
  const Fp8Spec& fp8 = spec.train.fp8;
  const bool alike = fp8.bf16_first == 0 && fp8.bf16_last == 0;
  if (!alike || !templates_do(stages, plan.stage_blocks)) {
    plan.classes = compile_classes(spec, classes);
    other_work_ += work_of_classes(spec, classes);
    return plan;
  }
  // Templates do not depend on the pipeline, on how many layers there are, or on the batch.
  small.model.layers = 1;
  small.parallel.pp = 1;
  small.parallel.stage_layers.clear();
  small.parallel.schedule = PipelineKind::k1F1B;
  small.parallel.schedule_csv.clear();
  small.parallel.virtual_stages = small.parallel.schedule_group = 0;
  small.train.global_batch = 0;
  RunSpec basis = spec;
  const auto [templates, fresh] =
      templates_.try_emplace(to_json(small).dump(), StageTemplates(std::move(basis)));
  templates->second.allow(std::min(kMostTemplateWork, most_work_ - work()));
  const Composer composer(plan, stages, templates->second);
  int composed = -1;
  ClassTotals of_pipeline_rank;
  for (const RankClass& ranks : classes) {
    if (ranks.pipeline_rank != composed) {
      composed = ranks.pipeline_rank;
      of_pipeline_rank = composer.compose(composed);
    }
    ClassTotals one = of_pipeline_rank;
    one.ranks = ranks;
    const int64_t scratch = std::max(composer.kernel_scratch(composed),
                                     scratch_of_update(plan, ranks, composer.stages_of(composed)));
    one.memory[static_cast<size_t>(ArenaKind::kWorkspace)] += arena_aligned((scratch + 7) / 8 * 8);
    plan.classes.push_back(std::move(one));
  }
  return plan;
}

}  // namespace tessera
