#include "train/state/rank_state.h"

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

using BoxKey = std::pair<std::string, Box>;

// A buffer of the rank, seen from the host.
struct Viewed {
  BufferId id = kNoBuffer;
  HostView view;
};

struct Source {
  const Executor& executor;
  const SavePlan& plan;
  std::map<BoxKey, const StateBox*> boxes;
  Viewed viewed;

  ChunkMemory operator()(const HeldBox& held) {
    const auto found = boxes.find({plan.tensors[held.tensor].name, held.box});
    TESSERA_CHECK(found != boxes.end(), "rank {} does not hold {} of '{}'", executor.program().rank,
                  box_text(held.box), plan.tensors[held.tensor].name);
    const StateBox& box = *found->second;
    const BufferId id = buffer_of(executor.program().buckets[box.bucket], box.part);
    if (id != viewed.id) viewed = {id, executor.view(id)};
    return {static_cast<const std::byte*>(viewed.view.tensor.data), box.place};
  }
};

// What is read into one buffer.
using Wanted = std::map<BufferId, std::vector<const StateBox*>>;

// Weights are read whole where the rank holds them whole: its shard lies within.
Wanted wanted_of(const Program& program, const std::vector<StateBox>& boxes,
                 const std::vector<StateBox>& whole) {
  Wanted wanted;
  for (const StateBox& box : whole) {
    const BufferId full = program.buckets[box.bucket].full;
    if (full != kNoBuffer) wanted[full].push_back(&box);
  }
  for (const StateBox& box : boxes) {
    const BucketBuffers& buffers = program.buckets[box.bucket];
    const bool is_read = box.part == StatePart::kWeights && buffers.full != kNoBuffer;
    if (!is_read) wanted[buffer_of(buffers, box.part)].push_back(&box);
  }
  return wanted;
}

}  // namespace

ChunkSource state_source(const Executor& executor, const StateLayout& layout,
                         const SavePlan& plan) {
  const auto source = std::make_shared<Source>(Source{executor, plan, {}, {}});
  for (const StateBox& box : layout.ranks[static_cast<size_t>(executor.program().rank)]) {
    source->boxes[{layout.tensors[box.tensor].name, box.place.box}] = &box;
  }
  return [source](const HeldBox& held) { return (*source)(held); };
}

void load_state(Executor& executor, const StepGraph& step, const StateLayout& layout,
                const BoxReader& read) {
  const Program& program = executor.program();
  const std::vector<StateBox> whole = whole_weights(step, layout, program.rank);
  const std::vector<StateBox>& mine = layout.ranks[static_cast<size_t>(program.rank)];
  for (const auto& [id, boxes] : wanted_of(program, mine, whole)) {
    const HostView view = executor.view(id);
    const Tensor& tensor = view.tensor;
    std::memset(tensor.data, 0, static_cast<size_t>(tensor.bytes()));
    std::vector<WantedBox> wanted;
    for (const StateBox* box : boxes) {
      const TensorHead& head = layout.tensors[box->tensor];
      TESSERA_CHECK(size_bits(head.type) == 8 * size_bytes(tensor.dtype), "'{}' is kept as {}",
                    head.name, name_of(tensor.dtype));
      wanted.push_back(
          {head.name, head.type, head.shape, box->place, static_cast<std::byte*>(tensor.data)});
    }
    read(wanted);
    executor.write(id, view);
  }
}

ReadFigures load_state(Executor& executor, const StepGraph& step, const StateLayout& layout,
                       const FileOps& files, const CheckpointFolder& checkpoint) {
  ReadFigures figures;
  load_state(executor, step, layout, [&](std::span<const WantedBox> wanted) {
    const ReadFigures more = read_boxes(files, checkpoint, wanted);
    figures.needed_bytes += more.needed_bytes;
    figures.read_bytes += more.read_bytes;
    figures.spans += more.spans;
  });
  return figures;
}

}  // namespace tessera
