#include "checkpoint/store/reshard.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/store/committer.h"
#include "checkpoint/store/saves.h"

namespace tessera {
namespace {

int64_t bytes_of(const TensorHead& tensor, const Box& box) {
  return volume(box) * (size_bits(tensor.type) / 8);
}

// Halves of a box, again and again, along the outermost dim that has more than one element: rows
// stay whole as long as they can.
void cut(const TensorHead& tensor, const HeldBox& held, int64_t most_bytes,
         std::vector<HeldBox>& out) {
  const auto wide = std::ranges::find_if(held.box.shape, [](int64_t size) { return size > 1; });
  if (bytes_of(tensor, held.box) <= most_bytes || wide == held.box.shape.end()) {
    out.push_back(held);
    return;
  }
  const auto dim = static_cast<size_t>(wide - held.box.shape.begin());
  HeldBox first = held, second = held;
  first.box.shape[dim] = *wide / 2;
  second.box.offset[dim] += *wide / 2;
  second.box.shape[dim] -= *wide / 2;
  cut(tensor, first, most_bytes, out);
  cut(tensor, second, most_bytes, out);
}

// The boxes of one shard, read some at a time in the order in which they are written.
class ShardSource {
 public:
  ShardSource(const StoredCheckpoint& from, const SavePlan& plan, int64_t rank,
              ReadFigures& figures)
      : from_(from),
        plan_(plan),
        boxes_(plan.writes[static_cast<size_t>(rank)]),
        figures_(figures) {}

  ChunkMemory next(const HeldBox& held) {
    TESSERA_CHECK(next_ < boxes_.size() && boxes_[next_] == held, "a box out of turn: {}",
                  box_text(held.box));
    if (next_ == loaded_) load();
    const int64_t at = begins_[next_++ - first_];
    return {memory_.data() + at, placed_dense(held.box)};
  }

 private:
  void load() {
    first_ = loaded_;
    begins_.clear();
    int64_t bytes = 0;
    while (loaded_ < boxes_.size()) {
      const HeldBox& held = boxes_[loaded_];
      const int64_t more = bytes_of(plan_.tensors[held.tensor], held.box);
      if (loaded_ > first_ && bytes + more > kReshardBytes) break;
      begins_.push_back(bytes);
      bytes += more;
      ++loaded_;
    }
    memory_.resize(static_cast<size_t>(bytes));
    std::vector<WantedBox> wanted;
    for (size_t i = first_; i < loaded_; ++i) {
      const TensorHead& tensor = plan_.tensors[boxes_[i].tensor];
      wanted.push_back({tensor.name, tensor.type, tensor.shape, placed_dense(boxes_[i].box),
                        memory_.data() + begins_[i - first_]});
    }
    const ReadFigures read = read_boxes(from_.files, from_.checkpoint, wanted);
    figures_.needed_bytes += read.needed_bytes;
    figures_.read_bytes += read.read_bytes;
    figures_.spans += read.spans;
  }

  const StoredCheckpoint& from_;
  const SavePlan& plan_;
  const std::vector<HeldBox>& boxes_;
  ReadFigures& figures_;
  size_t next_ = 0, first_ = 0, loaded_ = 0;  // boxes [first_, loaded_) are in memory
  std::vector<int64_t> begins_;
  std::vector<std::byte> memory_;
};

// What the new mesh does not know would be lost.
void require_all_tensors(const CheckpointFolder& from, const std::vector<TensorHead>& tensors) {
  std::set<std::string> known;
  for (const TensorHead& tensor : tensors) known.insert(tensor.name);
  for (const ManifestTensor& tensor : from.manifest.tensors) {
    require_config(known.contains(tensor.name),
                   "checkpoint '{}' has a tensor {} that the run does not have: use the run file, "
                   "the optimizer and the train.dtype that it was saved with",
                   from.folder, in_quotes(tensor.name, 200));
  }
}

void require_new_step(const FileOps& files, int64_t step) {
  const std::string name = step_folder(step);
  for (const StoreEntry& entry : files.list("")) {
    require_config(entry.name != name, "'{}' is there already: name another folder",
                   files.path_text({"", name}));
  }
  for (const StoredSave& save : list_saves(files)) {
    require_config(!save.committed || save.step != step,
                   "'{}' is a checkpoint of step {} already: name another folder",
                   files.path_text({"", save.folder}), step);
  }
}

}  // namespace

std::vector<std::vector<HeldBox>> in_small_boxes(const std::vector<TensorHead>& tensors,
                                                 const std::vector<std::vector<HeldBox>>& held,
                                                 int64_t most_bytes) {
  std::vector<std::vector<HeldBox>> small(held.size());
  for (size_t rank = 0; rank < held.size(); ++rank) {
    for (const HeldBox& box : held[rank]) cut(tensors[box.tensor], box, most_bytes, small[rank]);
  }
  return small;
}

ReadFigures reshard(const StoredCheckpoint& from, FileOps& to,
                    const std::vector<TensorHead>& tensors,
                    const std::vector<std::vector<HeldBox>>& held, const SaveId& id,
                    const nlohmann::json& state) {
  const int64_t step = from.checkpoint.step();
  require_all_tensors(from.checkpoint, tensors);
  require_new_step(to, step);
  const SavePlan plan = plan_save(tensors, in_small_boxes(tensors, held, kReshardBytes));
  ReadFigures figures;
  begin_save(to, id);
  try {
    std::vector<ShardAck> acks;
    for (int64_t rank = 0; rank < plan.world(); ++rank) {
      ShardSource source(from, plan, rank, figures);
      acks.push_back(write_shard(to, plan, id, step, rank,
                                 [&](const HeldBox& box) { return source.next(box); }));
    }
    require_new_step(to, step);  // somebody else may have been quicker
    commit_save(to, plan, id, step, acks, state);
  } catch (...) {
    try {
      abandon_save(to, id);
    } catch (const Error&) {
      // The disk is still not well: the first failure is the one to tell, and what is left has no
      // name of a step.
    }
    throw;
  }
  return figures;
}

}  // namespace tessera
