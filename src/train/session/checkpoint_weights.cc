#include "train/session/checkpoint_weights.h"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store/box_reader.h"
#include "train/session/stored_tensors.h"
#include "train/state/bucket_runs.h"

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

// One opened checkpoint; whole tensors are read, because rows share blocks with others.
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

  void read(const LogicalTensor& tensor, std::vector<std::byte>& bytes) const {
    const StoredType type = type_of(tensor.name);
    bytes.resize(static_cast<size_t>(tensor_bytes(type, tensor.shape).value()));
    const WantedBox wanted{tensor.name, type, tensor.shape, placed_dense(whole_box(tensor.shape)),
                           bytes.data()};
    (void)read_boxes(*files_, checkpoint_, {&wanted, 1});
  }

 private:
  std::string path_;
  std::unique_ptr<FileOps> files_;
  CheckpointFolder checkpoint_;
};

// The tensor that was asked for last.
struct OneTensor {
  explicit OneTensor(const std::string& folder) : opened(folder) {}
  Opened opened;
  std::mutex mutex;
  std::string name;
  std::vector<std::byte> bytes;
};

}  // namespace

bool is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  const fs::path path = fs::path(folder);
  return fs::exists(path / kCommitFile, ignored) || fs::exists(path / kManifestFile, ignored);
}

TensorSource checkpoint_weights(const std::string& folder, const ParameterLayout& layout) {
  const auto one = std::make_shared<OneTensor>(folder);
  one->opened.require_model(tensors_of(layout));
  return [one](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    const std::scoped_lock lock(one->mutex);
    if (one->name != tensor.name) {
      one->name.clear();  // until it is there
      one->opened.read(tensor, one->bytes);
      one->name = tensor.name;
    }
    const StoredType type = one->opened.type_of(tensor.name);
    const auto element = static_cast<size_t>(size_bits(type) / 8);
    decode(type,
           std::span<const std::byte>(one->bytes)
               .subspan(static_cast<size_t>(first) * element, out.size() * element),
           out);
  };
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
      opened.read(*tensor, whole);
      put_into_stored(*tensor, whole, size_bits(head.type) / 8, stored);
    }
    writer.add(head.name, stored);
  }
  writer.commit();
}

}  // namespace tessera
