#include "checkpoint/safetensors_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/json_events.h"

namespace tessera {
namespace {

constexpr size_t kShownName = 200;

std::string tensor_text(std::string_view name) {
  return fmt::format("tensor {}", in_quotes(name, kShownName));
}

// Builds the entries from JSON events. The nesting allowed by the format is three deep, and the
// state says where we are; anything else is refused, so depth needs no other limit.
class HeaderEvents : public JsonEvents {
 public:
  HeaderEvents(const std::string& file, std::vector<TensorInfo>& tensors,
               std::map<std::string, std::string>& metadata)
      : JsonEvents(file), tensors_(tensors), metadata_(metadata) {}

  bool start_object(size_t /*size*/) override {
    if (state_ == State::kStart) {
      state_ = State::kFile;
    } else if (state_ == State::kFile && key_ == kMetadataKey) {
      if (has_metadata_) fail("it has two __metadata__ objects");
      has_metadata_ = true;
      state_ = State::kMetadata;
    } else if (state_ == State::kFile) {
      tensors_.emplace_back().name = key_;
      fields_.clear();
      offsets_.clear();
      state_ = State::kTensor;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(std::string& name) override {
    if (state_ == State::kFile && name.size() > kMaxTensorName) {
      fail(fmt::format("a tensor name has {} bytes, more than {}: {}", name.size(), kMaxTensorName,
                       in_quotes(name)));
    }
    if (state_ == State::kFile && name.find('\0') != std::string::npos) {
      fail(fmt::format("the tensor name {} has a zero byte", in_quotes(name, kShownName)));
    }
    if (state_ == State::kTensor) add_field(name);
    key_ = name;
    return true;
  }

  bool string(std::string& value) override {
    if (state_ == State::kMetadata) {
      if (!metadata_.emplace(key_, value).second) {
        fail(fmt::format("__metadata__ has the key {} twice", in_quotes(key_)));
      }
      return true;
    }
    if (state_ != State::kTensor || key_ != "dtype") return unexpected("a string");
    const std::optional<StoredType> type = parse_stored_type(value);
    if (!type) fail(fmt::format("{} has the unknown dtype {}", place(), in_quotes(value)));
    tensors_.back().type = *type;
    return true;
  }

  bool start_array(size_t /*size*/) override {
    if (state_ != State::kTensor || key_ == "dtype") return unexpected("an array");
    state_ = key_ == "shape" ? State::kShape : State::kOffsets;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (state_ != State::kShape && state_ != State::kOffsets) return unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(fmt::format("{} has the impossible size {}", place(), value));
    }
    std::vector<int64_t>& list = state_ == State::kShape ? tensors_.back().shape : offsets_;
    list.push_back(static_cast<int64_t>(value));
    if (state_ == State::kShape && list.size() > kMaxTensorRank) {
      fail(fmt::format("{} has more than {} dims", place(), kMaxTensorRank));
    }
    if (state_ == State::kOffsets && list.size() > 2) {
      fail(fmt::format("{} has more than 2 data_offsets", place()));
    }
    return true;
  }

  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) finish_tensor();
    state_ = state_ == State::kFile ? State::kEnd : State::kFile;
    return true;
  }

 protected:
  [[nodiscard]] std::string place() const override {
    switch (state_) {
      case State::kTensor:
      case State::kShape:
      case State::kOffsets:
        return tensor_text(tensors_.back().name);
      case State::kMetadata:
        return "__metadata__";
      default:
        return "its header";
    }
  }

 private:
  enum class State : uint8_t { kStart, kFile, kMetadata, kTensor, kShape, kOffsets, kEnd };

  void add_field(const std::string& name) {
    if (name != "dtype" && name != "shape" && name != "data_offsets") {
      fail(fmt::format("{} has the unknown field {}", place(), in_quotes(name)));
    }
    if (std::ranges::find(fields_, name) != fields_.end()) {
      fail(fmt::format("{} has the field {} twice", place(), name));
    }
    fields_.push_back(name);
  }

  void finish_tensor() {
    TensorInfo& tensor = tensors_.back();
    if (fields_.size() != 3) {
      fail(fmt::format("{} lacks one of dtype, shape and data_offsets", place()));
    }
    if (offsets_.size() != 2) {
      fail(fmt::format("{} has {} data_offsets instead of 2", place(), offsets_.size()));
    }
    tensor.begin = offsets_[0];
    tensor.end = offsets_[1];
    if (tensor.begin > tensor.end) {
      fail(fmt::format("{} begins at {}, after its end at {}", place(), tensor.begin, tensor.end));
    }
    const std::optional<int64_t> needed = tensor_bytes(tensor.type, tensor.shape);
    if (!needed) {
      fail(fmt::format("{} of shape {} and dtype {} has an impossible size", place(),
                       shape_text(tensor.shape), name_of(tensor.type)));
    }
    if (tensor.end - tensor.begin != *needed) {
      fail(fmt::format("{} of shape {} and dtype {} needs {} bytes but its data_offsets span {}",
                       place(), shape_text(tensor.shape), name_of(tensor.type), *needed,
                       tensor.end - tensor.begin));
    }
  }

  std::vector<TensorInfo>& tensors_;
  std::map<std::string, std::string>& metadata_;
  State state_ = State::kStart;
  bool has_metadata_ = false;
  std::string key_;
  std::vector<std::string> fields_;  // of the current tensor
  std::vector<int64_t> offsets_;     // of the current tensor
};

// Sorts by place in the file and proves that the tensors cover the data exactly.
void check_coverage(std::vector<TensorInfo>& tensors, int64_t data_bytes, const std::string& file) {
  std::ranges::sort(tensors, {}, [](const TensorInfo& t) { return std::pair(t.begin, t.end); });
  int64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin < covered) {
      fail_damaged(file,
                   fmt::format("{} begins at byte {} and overlaps the tensor before it, which "
                               "ends at {}",
                               tensor_text(tensor.name), tensor.begin, covered));
    }
    if (tensor.begin > covered) {
      fail_damaged(file, fmt::format("there is a hole of {} bytes before {}",
                                     tensor.begin - covered, tensor_text(tensor.name)));
    }
    covered = tensor.end;
    if (covered > data_bytes) {
      fail_damaged(file,
                   fmt::format("it is truncated: {} ends at byte {} of the data, but there are "
                               "only {}",
                               tensor_text(tensor.name), covered, data_bytes));
    }
  }
  if (covered < data_bytes) {
    fail_damaged(file, fmt::format("{} trailing bytes belong to no tensor", data_bytes - covered));
  }
}

std::vector<size_t> sorted_by_name(const std::vector<TensorInfo>& tensors) {
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) -> const std::string& { return tensors[i].name; });
  return order;
}

void check_distinct(const std::vector<TensorInfo>& tensors, const std::string& file) {
  const std::vector<size_t> order = sorted_by_name(tensors);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const std::string& name = tensors[order[i]].name;
    if (name == tensors[order[i + 1]].name) {
      fail_damaged(file, fmt::format("{} is there twice", tensor_text(name)));
    }
  }
}

}  // namespace

SafetensorsHeader SafetensorsHeader::parse(std::string_view json, int64_t data_bytes,
                                           const std::string& path) {
  const std::string file = fmt::format("safetensors file '{}'", path);
  if (!json.starts_with('{')) fail_damaged(file, "its header is not a JSON object");
  SafetensorsHeader header;
  HeaderEvents(file, header.tensors_, header.metadata_).parse(json);
  // Names before offsets: a tensor that is there twice would also be called an overlap.
  check_distinct(header.tensors_, file);
  check_coverage(header.tensors_, data_bytes, file);
  header.by_name_ = sorted_by_name(header.tensors_);
  return header;
}

const TensorInfo* SafetensorsHeader::find(std::string_view name) const {
  const auto name_at = [&](size_t i) -> std::string_view { return tensors_[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_at);
  if (found == by_name_.end() || name_at(*found) != name) return nullptr;
  return &tensors_[*found];
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace tessera
