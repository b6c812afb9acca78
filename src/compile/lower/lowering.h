// Graph -> instructions of one rank. The parts of a stage repeat the same nodes for every
// micro-batch, over the instances of storages that the micro-batch has. Kernels, communication and
// the update are in files of their own (lower_*.cc).
#pragma once

#include <map>
#include <set>
#include <tuple>

#include "compile/lower/instances.h"
#include "compile/lower/step_graph.h"
#include "compile/lower/storage.h"
#include "spec/run_file/lanes.h"
#include "spec/run_file/validate.h"

namespace tessera {

// Scratch of what no node of a graph becomes as it is: fused kernels, and the update, where an
// instruction takes several buckets at once. So it is known when instructions are fused and
// grouped.
int64_t instruction_scratch(const Program& program, bool on_gpu);

class Lowering {
 public:
  Lowering(const StepGraph& step, int rank)
      : step_(step),
        graph_(step.graph()),
        order_(nodes_of(step, rank)),
        map_(assign_storage(step, order_, rank)),
        batch_(batch_of(step, rank)),
        items_(items_of(step, rank, batch_)),
        versions_(step.stages.versions_of(static_cast<int>(step.mesh.coord(rank, Axis::kPp)))),
        instances_(count_instances(step, map_, items_)) {
    program_.rank = rank;
    program_.mesh = step.mesh;
    const std::vector<int>& rank_of_stage = step.stages.schedule.rank_of_stage;
    program_.pipeline_ends = {rank_of_stage.front(), rank_of_stage.back()};
    program_.threads = static_cast<int>(step.spec.train.threads);
    program_.micro_batches = step.training ? accumulation(step.spec) : 1;
    program_.weight_versions = versions_.slots;
  }

  Program run();

  // After run(): where everything lies, and the scratch of the kernels of micro-batches.
  [[nodiscard]] const StorageMap& storage() const { return map_; }
  [[nodiscard]] int64_t kernel_scratch_bytes() const { return scratch_bytes_; }

 private:
  void lower_node(const Node& node, int64_t micro_batch);
  void lower_in_place(const Node& node, int64_t micro_batch);
  void lower_cast(const Node& node, int64_t micro_batch);
  [[nodiscard]] StreamKind stream_of_weights() const;
  void lower_shift(const Node& node, int64_t micro_batch);
  void lower_all_to_all(const Node& node, int64_t micro_batch);
  void lower_pack(const Node& node, int64_t micro_batch);
  void join_lanes(const Node& node, int64_t micro_batch);
  void zero_left_out(const Node& node, int64_t micro_batch);
  void lower_kernel(const Node& node, int64_t micro_batch);
  void finish_bucket_gradient(const Node& node, int64_t micro_batch);
  void lower_message(const PipelineItem& item);
  void lower_tie_sum(const Node& node);
  void lower_update();
  void lower_sum_squares(size_t bucket, const Tag& tag);
  void lower_metrics(const Node& node);
  void lower_metrics_sum(const Node& node);
  [[nodiscard]] BufferId metric_sums();
  void count_update_tokens();
  void lower_stage_update();
  void lower_optimizer(const Node& node, int update);
  KernelArgs args_of(const Node& node) const;
  [[nodiscard]] bool split_on_tp(ValueId value) const;
  [[nodiscard]] int64_t heads_on_tp(int64_t heads, ValueId value) const;
  void add_token_args(const Node& node, KernelArgs& args) const;
  void add_vocabulary_args(const Node& node, int64_t rows, KernelArgs& args) const;
  void add_context_args(const Node& node, KernelArgs& args) const;
  void add_extra_operands(const Node& node, int64_t micro_batch, std::vector<BufferId>& inputs,
                          std::vector<BufferId>& outputs);
  [[nodiscard]] int64_t keys_per_sequence(const Node& node) const;
  void reserve_scratch(const Node& node);
  void publish_buffers();
  void publish_serve_buffers();

  Instruction& emit(OpKind op, const Node& node, int64_t micro_batch, std::vector<BufferId> inputs,
                    std::vector<BufferId> outputs);
  BufferId buffer(const Slot& slot, const std::string& name, int64_t micro_batch = 0);
  BufferId weights_buffer(const Slot& slot, const std::string& name, int version);
  BufferId instance_buffer(const Slot& slot, const std::string& name, int instance, int64_t offset);
  BufferId operand(ValueId value, int64_t micro_batch) {
    return buffer(map_.slots.at(value), graph_.value(value).name, micro_batch);
  }
  [[nodiscard]] int64_t coord(Axis axis) const { return step_.mesh.coord(program_.rank, axis); }
  [[nodiscard]] bool on_gpu() const { return step_.spec.train.device == TrainDevice::kCuda; }
  [[nodiscard]] bool asynchronous() const { return step_.stages.schedule.asynchronous; }
  // Among the micro-batches of an update, which may run in any order that the schedule says.
  [[nodiscard]] bool is_first() const { return item_ < 0 || ends_of_part().first == item_; }
  [[nodiscard]] bool is_last() const { return item_ < 0 || ends_of_part().second == item_; }
  [[nodiscard]] std::pair<int, int> ends_of_part() const {
    const PipelineItem& item = items_[static_cast<size_t>(item_)];
    return part_ends_.at({item.stage, item.part, update_of(item)});
  }
  [[nodiscard]] int update_of(const PipelineItem& item) const {
    return versions_.update_of[static_cast<size_t>(item.micro_batch)];
  }
  [[nodiscard]] bool is_first_of_step() const {
    return is_first() && (item_ < 0 || update_of(items_[static_cast<size_t>(item_)]) == 1);
  }
  [[nodiscard]] bool continues_sum(const Node& node, int64_t micro_batch) const;
  void require_lanes_in_order() const;
  void find_part_ends();
  [[nodiscard]] std::vector<int> part_end_positions() const;

  const StepGraph& step_;
  const Graph& graph_;
  RankNodes order_;
  StorageMap map_;
  ReplicaBatch batch_;
  std::vector<PipelineItem> items_;
  const StageVersions& versions_;
  InstanceMap instances_;
  Program program_;
  std::vector<Region> region_of_;         // per buffer
  std::vector<InstructionPlace> places_;  // per instruction
  // First and last item of (stage, part, update).
  std::map<std::tuple<int, int, int>, std::pair<int, int>> part_ends_;
  std::map<std::tuple<StorageId, int, int64_t, DType, Shape>, BufferId> known_;
  std::map<int, Tag> crossing_tags_;  // of those that were sent or received so far
  int position_ = 0;
  int item_ = -1;  // -1: outside of micro-batches
  // The lane of the node at hand, and which of the gradients' sums it adds to.
  int64_t lane_ = 0;
  int sum_ = 0;
  int64_t scratch_bytes_ = 0;
};

}  // namespace tessera
