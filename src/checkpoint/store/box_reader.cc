#include "checkpoint/store/box_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/store/block_reader.h"

namespace tessera {
namespace {

// A stretch of a file, and where it goes.
struct Run {
  int64_t begin = 0, end = 0;
  std::byte* to = nullptr;
};

// What a wanted box and a stored chunk have in common.
struct Part {
  const WantedBox* wanted = nullptr;
  const ManifestChunk* chunk = nullptr;
  Box common;
};

constexpr int64_t kMostSpanBytes = (BlockReader::kMostBlocks - 2) * kStoreBlockBytes;
constexpr size_t kMostRuns = 1 << 16;  // kept at a time

// Collects runs that come in ascending order and reads those that lie near each other at once.
class SpanReader {
 public:
  SpanReader(BlockReader& blocks, ReadFigures& figures) : blocks_(blocks), figures_(figures) {}

  void add(Run run) {
    figures_.needed_bytes += run.end - run.begin;
    const bool near = !runs_.empty() && run.begin >= end_ && run.begin - end_ <= kNearBytes;
    if (!near) {
      flush();
      ++figures_.spans;
    } else {
      figures_.gap_bytes += run.begin - end_;
    }
    while (run.begin < run.end) {
      if (runs_.size() >= kMostRuns ||
          (!runs_.empty() && run.begin - runs_.front().begin >= kMostSpanBytes)) {
        flush();
      }
      const int64_t from = runs_.empty() ? run.begin : runs_.front().begin;
      const int64_t end = std::min(run.end, from + kMostSpanBytes);
      runs_.push_back({run.begin, end, run.to});
      run.to += end - run.begin;
      run.begin = end_ = end;
    }
  }

  void flush() {
    if (runs_.empty()) return;
    const int64_t begin = runs_.front().begin;
    const std::span<const std::byte> bytes = blocks_.read(begin, end_);
    for (const Run& run : runs_) {
      std::memcpy(run.to, bytes.data() + (run.begin - begin),
                  static_cast<size_t>(run.end - run.begin));
    }
    runs_.clear();
  }

 private:
  BlockReader& blocks_;
  ReadFigures& figures_;
  std::vector<Run> runs_;
  int64_t end_ = 0;
};

const ManifestTensor& tensor_of(const CheckpointFolder& checkpoint, const WantedBox& wanted) {
  const ManifestTensor* tensor = checkpoint.manifest.find(wanted.tensor);
  require_config(tensor != nullptr, "checkpoint '{}' has no tensor {}: it is of another model",
                 checkpoint.folder, in_quotes(wanted.tensor, 200));
  require_config(tensor->shape == wanted.shape,
                 "tensor {} has shape {} in checkpoint '{}', but the model needs {}",
                 in_quotes(wanted.tensor, 200), shape_text(tensor->shape), checkpoint.folder,
                 shape_text(wanted.shape));
  require_config(tensor->type == wanted.type,
                 "tensor {} has dtype {} in checkpoint '{}', but the run needs {}: use the same "
                 "train.dtype",
                 in_quotes(wanted.tensor, 200), name_of(tensor->type), checkpoint.folder,
                 name_of(wanted.type));
  TESSERA_CHECK(lies_in(wanted.place.box, tensor->shape), "{} of '{}'", box_text(wanted.place.box),
                wanted.tensor);
  return *tensor;
}

// By file, in the order of the file.
std::map<int64_t, std::vector<Part>> parts_of(const CheckpointFolder& checkpoint,
                                              std::span<const WantedBox> wanted) {
  std::map<int64_t, std::vector<Part>> parts;
  for (const WantedBox& box : wanted) {
    const ManifestTensor& tensor = tensor_of(checkpoint, box);
    int64_t found = 0;
    for (const ManifestChunk& chunk : tensor.chunks) {
      const auto common = intersection(chunk.box, box.place.box);
      if (!common) continue;
      found += volume(*common);
      parts[chunk.file].push_back({&box, &chunk, *common});
    }
    TESSERA_CHECK(found == volume(box.place.box), "{} of {} elements of '{}' are stored", found,
                  volume(box.place.box), box.tensor);
  }
  for (auto& [file, list] : parts) {
    std::ranges::stable_sort(list, {}, [](const Part& part) { return part.chunk->begin; });
  }
  return parts;
}

void read_part(const Part& part, SpanReader& spans) {
  const int64_t element = size_bits(part.wanted->type) / 8;
  for_each_common_run(
      placed_dense(part.chunk->box), part.wanted->place, part.common,
      [&](int64_t from, int64_t to, int64_t count) {
        const int64_t begin = part.chunk->begin + from * element;
        spans.add({begin, begin + count * element, part.wanted->memory + to * element});
      });
}

}  // namespace

ReadFigures read_boxes(const FileOps& files, const CheckpointFolder& checkpoint,
                       std::span<const WantedBox> wanted) {
  ReadFigures figures;
  for (const auto& [file, parts] : parts_of(checkpoint, wanted)) {
    const std::string& name = checkpoint.manifest.files[static_cast<size_t>(file)].name;
    BlockReader blocks(files, {checkpoint.folder, name}, load_sums(files, checkpoint, file));
    SpanReader spans(blocks, figures);
    for (const Part& part : parts) read_part(part, spans);
    spans.flush();
    figures.read_bytes += blocks.bytes_read();
  }
  return figures;
}

}  // namespace tessera
