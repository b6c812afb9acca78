#include "checkpoint/hf_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/json_events.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kFormerFile = "weights.safetensors";  // of runs by Tessera before 0.2
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr size_t kMaxFileName = 128;
constexpr int kMaxDepth = 64;
constexpr size_t kShownName = 200;

// A name that can only mean a file directly inside the folder.
bool is_plain_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxFileName && name.front() != '.' &&
         std::ranges::all_of(name, allowed);
}

// Reads {"metadata": ..., "weight_map": {tensor: file}}; what else is there is skipped.
class IndexEvents : public JsonEvents {
 public:
  explicit IndexEvents(const std::string& path)
      : JsonEvents(fmt::format("weight index '{}'", path)) {}

  // By tensor name.
  std::map<std::string, std::string> weight_map;
  bool has_weight_map = false;

  bool null() override { return scalar("null"); }
  bool boolean(bool /*value*/) override { return scalar("a boolean"); }
  bool number_integer(int64_t /*value*/) override { return scalar("a number"); }
  bool number_unsigned(uint64_t /*value*/) override { return scalar("a number"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return scalar("a number");
  }
  bool string(std::string& value) override {
    if (!in_weight_map_) return scalar("a string");
    if (!is_plain_name(value)) {
      fail(fmt::format("tensor {} is said to be in {}, which is not a plain file name",
                       in_quotes(key_, kShownName), in_quotes(value)));
    }
    if (!weight_map.emplace(key_, value).second) {
      fail(fmt::format("weight_map has tensor {} twice", in_quotes(key_, kShownName)));
    }
    return true;
  }
  bool key(std::string& name) override {
    key_ = name;
    return true;
  }
  bool start_object(size_t /*size*/) override {
    if (in_weight_map_) return unexpected("an object");
    deeper();
    if (depth_ == 2 && key_ == "weight_map") {
      if (has_weight_map) fail("it has two weight_map objects");
      has_weight_map = true;
      in_weight_map_ = true;
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    in_weight_map_ = false;
    return true;
  }
  bool start_array(size_t /*size*/) override {
    if (in_weight_map_ || depth_ == 0) return unexpected("an array");
    deeper();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

 protected:
  [[nodiscard]] std::string place() const override {
    return in_weight_map_ ? "weight_map" : "the file";
  }

 private:
  bool scalar(std::string_view what) const {
    if (in_weight_map_ || depth_ == 0) return unexpected(what);
    return true;
  }
  void deeper() {
    if (++depth_ > kMaxDepth) fail(fmt::format("it is nested deeper than {}", kMaxDepth));
  }

  std::string key_;
  int depth_ = 0;
  bool in_weight_map_ = false;
};

std::map<std::string, std::string> read_index(const std::string& path) {
  const InputFile file = InputFile::open(path);
  require(file.size() <= kMaxHeaderBytes, "weight index '{}' has {} bytes, more than {}", path,
          file.size(), kMaxHeaderBytes);
  IndexEvents events(path);
  events.parse(file.read_text(0, file.size()));
  require(!events.weight_map.empty(),
          "weight index '{}' lists no tensors under weight_map: download it again", path);
  return std::move(events.weight_map);
}

std::string in_folder(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

// Each tensor must be in the file that the index names, and no file may hold another one.
void check_index(const std::map<std::string, size_t, std::less<>>& file_of,
                 std::span<const SafetensorsFile> files, const std::string& index) {
  for (const auto& [name, file] : file_of) {
    require(files[file].find(name) != nullptr,
            "'{}' says that tensor {} is in '{}', but it is not: download the folder again", index,
            in_quotes(name, kShownName), files[file].path());
  }
  for (size_t i = 0; i < files.size(); ++i) {
    for (const TensorInfo& tensor : files[i].tensors()) {
      const auto listed = file_of.find(tensor.name);
      require(listed != file_of.end() && listed->second == i,
              "'{}' holds tensor {}, which '{}' does not list there: download the folder again",
              files[i].path(), in_quotes(tensor.name, kShownName), index);
    }
  }
}

bool exists(const std::string& path) {
  std::error_code unreadable;  // then opening it says why
  return fs::exists(path, unreadable) || static_cast<bool>(unreadable);
}

// Rotary frequencies, and the causal mask of GPT-2.
bool is_computable(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

}  // namespace

HfWeights HfWeights::open(const std::string& folder) {
  std::error_code error;
  require(fs::is_directory(folder, error),
          "model folder '{}' does not exist: name a folder with {}", folder, kSingleFile);
  HfWeights weights(folder);
  std::string single = in_folder(folder, kSingleFile);
  const std::string index = in_folder(folder, kIndexFile);
  if (!exists(single) && !exists(index)) single = in_folder(folder, kFormerFile);
  if (exists(single)) {
    weights.files_.push_back(SafetensorsFile::open(single));
    for (const std::string& name : weights.files_[0].names()) weights.file_of_[name] = 0;
    return weights;
  }
  require(exists(index),
          "model folder '{}' has neither {} nor {} (*.bin files are never read): convert the "
          "weights to safetensors",
          folder, kSingleFile, kIndexFile);
  const std::map<std::string, std::string> weight_map = read_index(index);
  std::map<std::string, size_t> opened;
  for (const auto& [name, file] : weight_map) {
    if (!opened.contains(file)) {
      opened[file] = weights.files_.size();
      weights.files_.push_back(SafetensorsFile::open(in_folder(folder, file)));
    }
    weights.file_of_[name] = opened[file];
  }
  check_index(weights.file_of_, weights.files_, index);
  return weights;
}

bool HfWeights::present(const std::string& folder) {
  return exists(in_folder(folder, kSingleFile)) || exists(in_folder(folder, kIndexFile)) ||
         exists(in_folder(folder, kFormerFile));
}

std::vector<std::string> HfWeights::names() const {
  std::vector<std::string> result;
  for (const auto& [name, file] : file_of_) result.push_back(name);
  return result;
}

const TensorInfo* HfWeights::find(std::string_view name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : files_[found->second].find(name);
}

const SafetensorsFile& HfWeights::file_with(const std::string& name,
                                            const std::vector<int64_t>& expected_shape) const {
  const auto found = file_of_.find(name);
  require(found != file_of_.end(), "model folder '{}' has no tensor {}", folder_,
          in_quotes(name, kShownName));
  const SafetensorsFile& file = files_[found->second];
  const std::vector<int64_t>& shape = file.at(name).shape;
  require(shape == expected_shape,
          "tensor {} of '{}' has shape {} but the model needs {}: use the config that belongs to "
          "these weights",
          in_quotes(name, kShownName), file.path(), shape_text(shape), shape_text(expected_shape));
  return file;
}

void HfWeights::require_shape(const std::string& name,
                              const std::vector<int64_t>& expected_shape) const {
  (void)file_with(name, expected_shape);
}

void HfWeights::read(const std::string& name, const std::vector<int64_t>& expected_shape,
                     std::span<double> out) const {
  file_with(name, expected_shape).read(name, out);
}
void HfWeights::read(const std::string& name, const std::vector<int64_t>& expected_shape,
                     std::span<float> out) const {
  file_with(name, expected_shape).read(name, out);
}
void HfWeights::read_bytes(const std::string& name, std::span<std::byte> out) const {
  const auto found = file_of_.find(name);
  TESSERA_CHECK(found != file_of_.end(), "'{}' has no tensor '{}'", folder_, name);
  files_[found->second].read_bytes(name, out);
}

void HfWeights::read_bytes_at(const std::string& name, const std::vector<int64_t>& expected_shape,
                              int64_t first, std::span<std::byte> out) const {
  file_with(name, expected_shape).read_bytes_at(name, first, out);
}

void HfWeights::read_range(const std::string& name, const std::vector<int64_t>& expected_shape,
                           int64_t first, std::span<double> out) const {
  file_with(name, expected_shape).read_range(name, first, out);
}
void HfWeights::read_range(const std::string& name, const std::vector<int64_t>& expected_shape,
                           int64_t first, std::span<float> out) const {
  file_with(name, expected_shape).read_range(name, first, out);
}

bool is_same_tensor(const HfWeights& weights, const std::string& name, const std::string& other) {
  const TensorInfo* a = weights.find(name);
  const TensorInfo* b = weights.find(other);
  TESSERA_CHECK(a != nullptr && b != nullptr, "'{}' lacks {} or {}", weights.folder(), name, other);
  if (a->type != b->type || a->shape != b->shape) return false;
  constexpr int64_t kBlock = int64_t{4} << 20;
  const int64_t bytes = a->end - a->begin;
  std::vector<std::byte> of_a, of_b;
  for (int64_t at = 0; at < bytes; at += kBlock) {
    of_a.resize(static_cast<size_t>(std::min(kBlock, bytes - at)));
    of_b.resize(of_a.size());
    weights.read_bytes_at(name, a->shape, at, of_a);
    weights.read_bytes_at(other, b->shape, at, of_b);
    if (of_a != of_b) return false;
  }
  return true;
}

void require_exact_names(const HfWeights& weights, std::span<const std::string> expected) {
  const std::set<std::string> wanted(expected.begin(), expected.end());
  std::vector<std::string> missing;
  for (const std::string& name : wanted) {
    if (weights.find(name) == nullptr && !is_computable(name)) missing.push_back(name);
  }
  std::vector<std::string> unmapped;
  for (const std::string& name : weights.names()) {
    if (!wanted.contains(name) && !is_computable(name)) {
      unmapped.push_back(in_quotes(name, kMaxTensorName));
    }
  }
  require(missing.empty() && unmapped.empty(),
          "the weights in '{}' do not fit the model.\nmissing ({}): {}\nunmapped ({}): {}\nuse the "
          "config.json that belongs to these weights",
          weights.folder(), missing.size(), fmt::join(missing, ", "), unmapped.size(),
          fmt::join(unmapped, ", "));
}

}  // namespace tessera
