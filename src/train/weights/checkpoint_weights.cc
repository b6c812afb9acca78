#include "train/weights/checkpoint_weights.h"

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store/box_reader.h"
#include "train/state/bucket_runs.h"
#include "train/weights/stored_tensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// "optim.m.NAME" and the like are no weights.
constexpr std::string_view kStates = "optim.";

std::vector<LogicalTensor> tensors_of(const ParameterLayout& layout) {
  std::vector<LogicalTensor> tensors;
  for (const Bucket& bucket : layout.buckets) {
    if (bucket.copy_of >= 0) continue;
    for_each_tensor(bucket, [&](const LogicalTensor& tensor) { tensors.push_back(tensor); });
  }
  return tensors;
}

// One opened checkpoint.
class Opened {
 public:
  explicit Opened(const std::string& folder)
      : path_(fs::absolute(folder).lexically_normal().string()),
        files_(real_files(fs::path(path_).parent_path().string())),
        checkpoint_(open_checkpoint(*files_, fs::path(path_).filename().string())) {}

  void require_model(const std::vector<LogicalTensor>& tensors) const {
    std::set<std::string, std::less<>> names;
    for (const LogicalTensor& tensor : tensors) {
      names.insert(tensor.name);
      const ManifestTensor* stored = checkpoint_.manifest.find(tensor.name);
      require_config(stored != nullptr, "'{}' has no '{}', which the model wants", path_,
                     tensor.name);
      require_config(stored->shape == tensor.shape, "'{}': '{}' is {}, but the model has {}", path_,
                     tensor.name, to_string(stored->shape), to_string(tensor.shape));
    }
    for (const ManifestTensor& stored : checkpoint_.manifest.tensors) {
      require_config(stored.name.starts_with(kStates) || names.contains(stored.name),
                     "'{}' has '{}', which the model does not have", path_, stored.name);
    }
  }

  [[nodiscard]] StoredType type_of(const std::string& name) const {
    return checkpoint_.manifest.find(name)->type;
  }

  [[nodiscard]] ReadFigures read(std::span<const WantedBox> boxes) const {
    return read_boxes(*files_, checkpoint_, boxes);
  }

  void read_whole(const LogicalTensor& tensor, std::vector<std::byte>& bytes) const {
    const StoredType type = type_of(tensor.name);
    bytes.resize(static_cast<size_t>(tensor_bytes(type, tensor.shape).value()));
    const WantedBox wanted{tensor.name, type, tensor.shape, placed_dense(whole_box(tensor.shape)),
                           bytes.data()};
    (void)read({&wanted, 1});
  }

 private:
  std::string path_;
  std::unique_ptr<FileOps> files_;
  CheckpointFolder checkpoint_;
};

class CheckpointWeights final : public WeightsOnDisk {
 public:
  CheckpointWeights(const std::string& folder, const ParameterLayout& layout) : opened_(folder) {
    opened_.require_model(tensors_of(layout));
  }

  [[nodiscard]] StoredType type_of(const LogicalTensor& tensor) const override {
    return opened_.type_of(tensor.name);
  }

  ReadFigures read(std::span<const WantedRows> wanted) const override {
    std::vector<WantedBox> boxes;
    for (const WantedRows& one : wanted) {
      if (one.num_rows == 0 || one.num_cols == 0) continue;
      const LogicalTensor& tensor = *one.tensor;
      Placed place{{{one.first_col}, {one.num_cols}}, 0, {1}};
      if (tensor.shape.size() == 2) {
        place = {
            {{one.first_row, one.first_col}, {one.num_rows, one.num_cols}}, 0, {one.stride, 1}};
      }
      boxes.push_back({tensor.name, type_of(tensor), tensor.shape, std::move(place), one.to});
    }
    return opened_.read(boxes);
  }

 private:
  Opened opened_;
};

}  // namespace

bool is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  const fs::path path = fs::path(folder);
  return fs::exists(path / kCommitFile, ignored) || fs::exists(path / kManifestFile, ignored);
}

std::shared_ptr<const WeightsOnDisk> open_checkpoint_weights(const std::string& folder,
                                                             const ParameterLayout& layout) {
  return std::make_shared<CheckpointWeights>(folder, layout);
}

void write_checkpoint_weights(const std::string& folder, const ParameterLayout& layout,
                              const std::string& path) {
  const Opened opened(folder);
  const std::vector<LogicalTensor> tensors = tensors_of(layout);
  opened.require_model(tensors);
  std::map<std::string, std::vector<const LogicalTensor*>> parts;  // by the name in the file
  for (const LogicalTensor& tensor : tensors) parts[tensor.stored.name].push_back(&tensor);
  std::vector<TensorHead> heads;
  for (const auto& [name, logical] : parts) {
    heads.push_back({name, opened.type_of(logical.front()->name), logical.front()->stored.shape});
  }
  sort_in_file_order(heads);
  SafetensorsWriter writer(path, heads, {{"format", "pt"}});
  std::vector<std::byte> whole;
  std::vector<std::byte> stored;
  for (const TensorHead& head : heads) {
    stored.resize(static_cast<size_t>(tensor_bytes(head.type, head.shape).value()));
    for (const LogicalTensor* tensor : parts.at(head.name)) {
      opened.read_whole(*tensor, whole);
      put_into_stored(*tensor, whole, size_bits(head.type) / 8, stored);
    }
    writer.add(head.name, stored);
  }
  writer.commit();
}

}  // namespace tessera
