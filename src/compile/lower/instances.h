// Which instance of a storage a micro-batch uses: its lane of the stage, or its place among the
// values that are handed from stage to stage.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compile/lower/storage.h"
#include "compile/pipeline/pipeline.h"

namespace tessera {

// One instance of a storage: the memory that a buffer lies in.
struct Region {
  StorageId storage = -1;
  int instance = 0;
  bool persistent = false;
  friend auto operator<=>(const Region&, const Region&) = default;
};

// Where an instruction stands: position in the rank's node order, and item of the pipeline order.
struct InstructionPlace {
  int position = 0;
  int item = -1;  // -1: the update
};

class InstanceMap {
 public:
  [[nodiscard]] int of(const Storage& storage, StorageId id, int micro_batch) const;
  // Micro-batches that are in flight at one time, by stage: lanes are used again.
  [[nodiscard]] const std::map<int, int>& lanes() const { return lanes_; }

 private:
  friend InstanceMap count_instances(const StepGraph& step, StorageMap& map,
                                     const std::vector<PipelineItem>& items);
  std::map<int, int> lanes_;
  std::map<std::pair<int, int>, int> lane_of_;           // stage, micro-batch
  std::map<std::pair<StorageId, int>, int> passing_of_;  // storage, micro-batch
};

// From the first to the last item that uses something, inclusive.
struct ItemSpan {
  int micro_batch = 0;
  int first = INT_MAX;
  int last = -1;
  void include(int item) {
    first = item < first ? item : first;
    last = item > last ? item : last;
  }
};

// Gives spans that overlap different numbers, the lowest that is free. By micro-batch, in the order
// of their beginnings; the number of different ones is how many are in use at one time.
std::vector<std::pair<int, int>> number_spans(std::vector<ItemSpan> spans);
int most_at_once(const std::vector<std::pair<int, int>>& numbers);

// A send still reads its value while the next part runs: the item of that part.
int part_after(const std::vector<PipelineItem>& items, size_t i);

// Also fills `instances` of the passing storages.
InstanceMap count_instances(const StepGraph& step, StorageMap& map,
                            const std::vector<PipelineItem>& items);

}  // namespace tessera
