// Memory and traffic of every rank of a run of any size, without compiling every rank, layer and
// micro-batch: equal to the byte to what compile_ranks gives. One class of ranks is put together
// from templates of its stages, the micro-batches that its schedule keeps in flight, and the
// messages that its stages exchange.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "compile/pipeline/stages.h"
#include "compile/scale/rank_class.h"
#include "compile/scale/stage_template.h"

namespace tessera {

struct ClassTotals {
  RankClass ranks;
  ArenaBytes memory = {};
  CallCounts calls;              // of a step
  std::map<int, int> in_flight;  // micro-batches at one time, by stage
  int weight_versions = 1;       // copies of the weights
  [[nodiscard]] int64_t total_bytes() const;
};

struct ScalePlan {
  RunSpec spec;
  Mesh mesh;
  PipelineSchedule schedule;
  std::vector<int64_t> stage_blocks;  // by stage
  std::array<int, 2> pipeline_ends = {};
  int64_t num_parameters = 0;
  std::vector<ClassTotals> classes;  // by pipeline rank

  // Sent by the first rank of the class; other ranks of it differ by a cache line in an all-reduce.
  [[nodiscard]] std::vector<Traffic> traffic(const ClassTotals& ranks) const;
  // The class and the exact traffic of any rank.
  [[nodiscard]] const ClassTotals& class_of_rank(int rank) const;
  [[nodiscard]] std::vector<Traffic> traffic(int rank) const;
  [[nodiscard]] const ClassTotals& heaviest() const;

  ParameterLayout axes;  // of a model of one block: what a rank counts
};

// Templates of run descriptions that differ in pipeline and batch alone. Not thread-safe.
class ScalePlanner {
 public:
  // All plans together may take so much estimated_work(); those that would take more are refused.
  explicit ScalePlanner(double most_work = std::numeric_limits<double>::infinity())
      : most_work_(most_work) {}
  // `spec` must have gone through resolve(), threads and device included. Throws ConfigError for
  // runs that no schedule or cut fits, and for those that cannot be planned without compiling them
  // and are too large for that.
  ScalePlan plan(const RunSpec& spec);
  [[nodiscard]] int64_t compiled_stages() const;
  // What has been compiled and ordered, in units of estimated_work().
  [[nodiscard]] double work() const;

 private:
  double most_work_;
  double other_work_ = 0;  // than that of templates
  std::map<std::string, StageTemplates> templates_;
};

}  // namespace tessera
