// What one pipeline stage adds to a rank: memory by category, calls, and the values that it hands
// to other stages. Measured by compiling a pipeline of three or four stages around it, with three
// micro-batches (the first, the last, and one like all the others). Stages of one kind share a
// template, however many there are; scale_plan.h puts a rank together from them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compile/model/limits.h"
#include "compile/pipeline/pipeline_items.h"
#include "compile/program/comm_call.h"
#include "compile/program/program.h"
#include "spec/run_spec.h"

namespace tessera {

using ArenaBytes = std::array<int64_t, kNumArenas>;

// From three on, one micro-batch more is one more like the second.
inline constexpr int64_t kTemplateMicroBatches = 3;

struct StageKind {
  int64_t blocks = 1;
  bool first = false, last = false;  // has the embedding; the head
  bool experts_before = true;  // blocks that hand on the routers' loss; of models with experts
  StageCut cut = StageCut::kTwo;
  std::string recompute = "none";                 // of this stage
  int64_t micro_batches = kTemplateMicroBatches;  // that many, or more if it is this one
  friend auto operator<=>(const StageKind&, const StageKind&) = default;
};

// Which way a value goes: to the next stage, to the one before, or from the last stage to all.
enum class Channel : uint8_t { kForward, kBackward, kFromLast };

// A value that comes from, or goes to, another stage. Values of one channel are numbered in the
// order in which they are needed.
struct StageLink {
  Channel channel = Channel::kForward;
  int number = 0;
  int part = 0;      // that makes it, or needs it first
  int storage = -1;  // in `passing`
  int64_t bytes = 0;
  friend bool operator==(const StageLink&, const StageLink&) = default;
};

struct PassingStorage {
  ArenaKind arena = ArenaKind::kActivations;
  int64_t bytes = 0;            // of one instance, aligned
  std::vector<int> parts = {};  // that touch it
  friend bool operator==(const PassingStorage&, const PassingStorage&) = default;
};

// What a rank has once, whatever its stages.
struct RankStorage {
  enum class Role : uint8_t { kCommon, kTokens, kLabels, kDocuments, kLoss, kMetrics, kRouterLoad };
  Role role = Role::kCommon;
  ArenaKind arena = ArenaKind::kWorkspace;
  int64_t bytes = 0;  // kTokens, kLabels, kDocuments: of a micro-batch; kMetrics: of no bucket;
                      // kRouterLoad: of a layer
  friend bool operator==(const RankStorage&, const RankStorage&) = default;
};

struct StageTemplate {
  ArenaBytes state = {};   // weights and what belongs to them, for the whole run
  ArenaBytes lane = {};    // that a micro-batch in flight keeps
  ArenaBytes shared = {};  // that all micro-batches use in turn
  ArenaBytes merged = {};  // lane and shared where only one micro-batch of one stage is in flight
  std::vector<PassingStorage> passing;
  std::vector<StageLink> incoming, outgoing;
  std::vector<RankStorage> rank_wide;
  int64_t kernel_scratch = 0;
  CallCounts per_step, per_micro_batch;  // without messages
  // What the copy of a tied weight adds, except on a rank that has the original too.
  ArenaBytes tied_state = {};
  CallCounts tied_per_step;
};

// `spec` must have gone through resolve(); its schedule is not read.
StageTemplate compile_stage(const RunSpec& spec, const StageKind& kind);

// Templates by kind, for one run description up to its pipeline and its batch. Stages of many
// blocks are evaluated from smaller ones, once a third has shown that the form is affine; where it
// is not, they are compiled as they are. Not thread-safe.
class StageTemplates {
 public:
  explicit StageTemplates(RunSpec spec) : spec_(std::move(spec)) {}
  // ConfigError for what would take more than allow() has left.
  const StageTemplate& of(const StageKind& kind);
  // From here on, templates of so much estimated_work().
  void allow(double work) { most_work_ = work_ + work; }
  [[nodiscard]] double work() const { return work_; }
  [[nodiscard]] int64_t compiled() const { return compiled_; }

 private:
  const StageTemplate& compiled(const StageKind& kind);
  void require_affordable(std::span<const StageKind> kinds) const;

  RunSpec spec_;
  std::map<StageKind, StageTemplate> known_;
  int64_t compiled_ = 0;
  double work_ = 0;
  double most_work_ = kMostTemplateWork;
};

// The template at `at` steps from `first`, on the line through three at equal distances; false
// where they do not lie on one.
bool extrapolate(const std::array<const StageTemplate*, 3>& points, int64_t at,
                 StageTemplate& result);

}  // namespace tessera
