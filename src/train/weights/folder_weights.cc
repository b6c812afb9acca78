#include "train/weights/folder_weights.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/hf_folder.h"
#include "train/weights/stored_tensors.h"

namespace tessera {
namespace {

constexpr std::string_view kGpt2Prefix = "transformer.";

// GPT-2 folders come with and without the prefix.
std::string name_in(const HfWeights& weights, const std::string& name) {
  if (weights.find(name) != nullptr || !name.starts_with(kGpt2Prefix)) return name;
  const std::string bare = name.substr(kGpt2Prefix.size());
  return weights.find(bare) != nullptr ? bare : name;
}

// A rectangle as its file has it: `runs` of `length` elements, one every `step`. In memory element
// i of run r lies r * run_stride + i * stride elements behind `to`.
struct StoredRuns {
  std::string name;
  Shape shape;
  int64_t element = 0;  // bytes
  int64_t first = 0, runs = 0, length = 0, step = 0;
  std::byte* to = nullptr;
  int64_t run_stride = 0, stride = 1;

  [[nodiscard]] int64_t gap_bytes() const { return (step - length) * element; }
};

StoredRuns runs_of(const WantedRows& wanted, int64_t element) {
  const StoredTensor& stored = wanted.tensor->stored;
  StoredRuns runs;
  runs.element = element;
  runs.first =
      stored.offset + wanted.first_row * stored.row_step + wanted.first_col * stored.col_step;
  runs.to = wanted.to;
  if (stored.col_step == 1) {
    runs.runs = wanted.num_rows;
    runs.length = wanted.num_cols;
    runs.step = stored.row_step;
    runs.run_stride = wanted.stride;
  } else {
    TESSERA_CHECK(stored.row_step == 1, "'{}' is neither stored by rows nor by columns",
                  wanted.tensor->name);
    runs.runs = wanted.num_cols;
    runs.length = wanted.num_rows;
    runs.step = stored.col_step;
    runs.run_stride = 1;
    runs.stride = wanted.stride;
  }
  // Without gaps on both sides they are one.
  if (runs.stride == 1 && runs.step == runs.length && runs.run_stride == runs.length) {
    runs.length *= runs.runs;
    runs.runs = 1;
  }
  return runs;
}

// Element i of a run to element i * stride.
void scatter(const std::byte* from, int64_t count, int64_t element, std::byte* to, int64_t stride) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count * element));
    return;
  }
  const auto size = static_cast<size_t>(element);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * stride * element, from + i * element, size);
  }
}

class FolderWeights final : public WeightsOnDisk {
 public:
  FolderWeights(const std::string& folder, const ParameterLayout& layout)
      : weights_(HfWeights::open(folder)) {
    const std::vector<StoredShape> stored = stored_shapes(layout);
    std::vector<std::string> expected;
    for (const StoredShape& one : stored) expected.push_back(name_in(weights_, one.name));
    expect_copy_of_embedding(expected);
    require_exact_names(weights_, expected);
    for (const StoredShape& one : stored) {
      // What can be computed may be missing; who reads it says so.
      const std::string name = name_in(weights_, one.name);
      if (weights_.find(name) != nullptr) weights_.require_shape(name, one.shape);
    }
  }

  [[nodiscard]] StoredType type_of(const LogicalTensor& tensor) const override {
    const std::string name = name_in(weights_, tensor.stored.name);
    weights_.require_shape(name, tensor.stored.shape);
    const StoredType type = weights_.find(name)->type;
    require(is_readable(type),
            "tensor {} of '{}' has dtype {}, which cannot be read: convert it to F32 or BF16",
            in_quotes(name, 200), weights_.folder(), name_of(type));
    return type;
  }

  ReadFigures read(std::span<const WantedRows> wanted) const override {
    ReadFigures figures;
    std::vector<std::byte> buffer;
    for (const WantedRows& one : wanted) {
      if (one.num_rows == 0 || one.num_cols == 0) continue;
      StoredRuns runs = runs_of(one, size_bits(type_of(*one.tensor)) / 8);
      runs.name = name_in(weights_, one.tensor->stored.name);
      runs.shape = one.tensor->stored.shape;
      figures.needed_bytes += runs.runs * runs.length * runs.element;
      read_runs(runs, buffer, figures);
    }
    return figures;
  }

 private:
  // Files of a model whose head is its embedding may have that twice. Versions of Transformers do
  // not agree on what counts where the two differ.
  void expect_copy_of_embedding(std::vector<std::string>& expected) const {
    const std::string head = "lm_head.weight";
    if (weights_.find(head) == nullptr || std::ranges::count(expected, head) > 0) return;
    const auto embedding = std::ranges::find_if(expected, [](const std::string& name) {
      return name.ends_with("embed_tokens.weight") || name.ends_with("wte.weight");
    });
    if (embedding == expected.end() || weights_.find(*embedding) == nullptr) return;
    require(is_same_tensor(weights_, *embedding, head),
            "the model has one tensor for embedding and head (\"tie_word_embeddings\" of "
            "config.json), but {} and {} of '{}' differ: set it to false to keep both, or leave {} "
            "out of the file",
            *embedding, head, weights_.folder(), head);
    expected.push_back(head);
  }

  void read_bytes(const StoredRuns& runs, int64_t first, std::span<std::byte> out,
                  ReadFigures& figures) const {
    weights_.read_bytes_at(runs.name, runs.shape, first * runs.element, out);
    figures.read_bytes += std::ssize(out);
  }

  // Long runs, and those far from each other, go straight into their place.
  void read_runs(const StoredRuns& runs, std::vector<std::byte>& buffer,
                 ReadFigures& figures) const {
    const bool straight = runs.stride == 1 && (runs.runs == 1 || runs.gap_bytes() > kNearBytes);
    if (!straight) return read_near(runs, buffer, figures);
    for (int64_t r = 0; r < runs.runs; ++r) {
      read_bytes(runs, runs.first + r * runs.step,
                 {runs.to + r * runs.run_stride * runs.element,
                  static_cast<size_t>(runs.length * runs.element)},
                 figures);
    }
    figures.spans += runs.runs;
  }

  // Several runs with what lies between them; of very long ones a part after the other.
  void read_near(const StoredRuns& runs, std::vector<std::byte>& buffer,
                 ReadFigures& figures) const {
    buffer.resize(static_cast<size_t>(kReadBytes));
    const int64_t room = kReadBytes / runs.element;
    for (int64_t i = 0; i < runs.length; i += room) {
      const int64_t length = std::min(room, runs.length - i);
      const bool near = (runs.step - length) * runs.element <= kNearBytes;
      const int64_t at_once = near ? (room - length) / runs.step + 1 : 1;
      figures.spans += near ? 1 : runs.runs;
      for (int64_t r = 0; r < runs.runs; r += at_once) {
        const int64_t count = std::min(at_once, runs.runs - r);
        const int64_t elements = (count - 1) * runs.step + length;
        figures.gap_bytes += (elements - count * length) * runs.element;
        read_bytes(runs, runs.first + r * runs.step + i,
                   std::span(buffer).first(static_cast<size_t>(elements * runs.element)), figures);
        for (int64_t k = 0; k < count; ++k) {
          scatter(buffer.data() + k * runs.step * runs.element, length, runs.element,
                  runs.to + ((r + k) * runs.run_stride + i * runs.stride) * runs.element,
                  runs.stride);
        }
      }
    }
  }

  HfWeights weights_;
};

}  // namespace

std::shared_ptr<const WeightsOnDisk> open_folder_weights(const std::string& folder,
                                                         const ParameterLayout& layout) {
  return std::make_shared<FolderWeights>(folder, layout);
}

}  // namespace tessera
