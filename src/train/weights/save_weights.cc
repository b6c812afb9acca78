// Whole tensors put together on rank 0 from the parts that the ranks own, and written one by one.
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/safetensors.h"
#include "train/control.h"
#include "train/state/bucket_runs.h"
#include "train/weights/stored_tensors.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

// Ranks without a part in so much of the file would only see that rank 0 does not come.
constexpr int64_t kQuietBytes = int64_t{32} << 20;

struct Place {
  size_t bucket = 0;
  LogicalTensor tensor;
};

// By the name in the file; several tensors may share one.
std::map<std::string, std::vector<Place>> places_of(const ParameterLayout& layout) {
  std::map<std::string, std::vector<Place>> places;
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    if (layout.buckets[b].copy_of >= 0) continue;
    for_each_tensor(layout.buckets[b], [&](const LogicalTensor& t) {
      places[t.stored.name].push_back({b, t});
    });
  }
  return places;
}

// Moves one tensor after the other from its owners to rank 0.
class TensorGatherer {
 public:
  TensorGatherer(const StepGraph& step, const Executor& executor, Communicator& control)
      : step_(step), executor_(executor), control_(control) {}

  // On rank 0 the whole tensor, valid until the next call.
  std::span<const std::byte> gather(const Place& place) {
    const bool receives = control_.rank() == 0;
    if (receives) whole_.resize(static_cast<size_t>(numel(place.tensor.shape) * element_));
    for (int owner = 0; owner < control_.size(); ++owner) {
      if (receives) {
        receive_part(place, owner);
      } else if (owner == control_.rank()) {
        send_part(place);
      }
    }
    return whole_;
  }

 private:
  // Tensors of one bucket follow each other.
  [[nodiscard]] const Tensor& buffer_of(const Place& place) {
    if (viewed_ != place.bucket) {
      view_ = executor_.view(executor_.program().buckets[place.bucket].weights);
      viewed_ = place.bucket;
    }
    return view_.tensor;
  }

  // f(first element of the tensor, first element of the owner's buffer, count) for what `owner`
  // speaks for.
  template <typename F>
  void for_each_owned_run(const Place& place, int owner, const F& f) const {
    const Bucket& bucket = step_.layout.buckets[place.bucket];
    const int64_t numel = kept_numel(step_, bucket);
    if (!owns(step_, bucket, numel, owner)) return;
    for_each_run(place.tensor, split_position(step_, bucket, owner),
                 window_of(step_, bucket, numel, owner), f);
  }

  [[nodiscard]] static uint32_t tag_of(const Place& place) {
    return static_cast<uint32_t>(hash_name(place.tensor.name));
  }

  void copy(std::byte* to, int64_t to_element, const std::byte* from, int64_t from_element,
            int64_t count) const {
    std::memcpy(to + to_element * element_, from + from_element * element_,
                static_cast<size_t>(count * element_));
  }

  void send_part(const Place& place) {
    if (!step_.holds(executor_.program().rank, step_.layout.buckets[place.bucket].unit)) return;
    int64_t packed = 0;
    const auto* buffer = static_cast<const std::byte*>(buffer_of(place).data);
    for_each_owned_run(place, control_.rank(), [&](int64_t, int64_t at, int64_t count) {
      part_.resize(static_cast<size_t>((packed + count) * element_));
      copy(part_.data(), packed, buffer, at, count);
      packed += count;
    });
    if (packed > 0) control_.send(part_.data(), packed, dtype_, 0, tag_of(place));
  }

  void receive_part(const Place& place, int owner) {
    int64_t expected = 0;
    for_each_owned_run(place, owner, [&](int64_t, int64_t, int64_t count) { expected += count; });
    if (expected == 0) return;
    const bool own = owner == control_.rank();
    const std::byte* from = nullptr;
    if (own) {
      from = static_cast<const std::byte*>(buffer_of(place).data);
    } else {
      part_.resize(static_cast<size_t>(expected * element_));
      control_.receive(part_.data(), expected, dtype_, owner, tag_of(place));
      from = part_.data();
    }
    int64_t unpacked = 0;
    for_each_owned_run(place, owner, [&](int64_t first, int64_t at, int64_t count) {
      copy(whole_.data(), first, from, own ? at : unpacked, count);
      unpacked += count;
    });
  }

  const StepGraph& step_;
  const Executor& executor_;
  Communicator& control_;
  const DType dtype_ = step_.spec.train.dtype;
  const int64_t element_ = size_bytes(dtype_);
  std::vector<std::byte> whole_;
  std::vector<std::byte> part_;
  std::optional<size_t> viewed_;  // the bucket of view_
  HostView view_;
};

// Rank 0's file. After a failure it takes the remaining tensors and drops them: the ranks that send
// them must not be left waiting.
class WeightFile {
 public:
  WeightFile(const std::string& path, const std::vector<TensorHead>& heads) {
    attempt([&] {
      writer_.emplace(path, heads, std::map<std::string, std::string>{{"format", "pt"}});
    });
  }
  void add(const std::string& name, std::span<const std::byte> bytes) {
    attempt([&] { writer_->add(name, bytes); });
  }
  void commit() {
    attempt([&] { writer_->commit(); });
  }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  template <typename F>
  void attempt(const F& action) {
    if (!failure_.empty()) return;
    try {
      action();
    } catch (const Error& error) {
      failure_ = error.what();
      writer_.reset();  // removes what there is of the file
    }
  }

  std::optional<SafetensorsWriter> writer_;
  std::string failure_;
};

}  // namespace

std::string try_save_weights(const std::string& path, const StepGraph& step,
                             const Executor& executor, Communicator& control,
                             const std::function<void()>& on_growth) {
  const std::map<std::string, std::vector<Place>> places = places_of(step.layout);
  const StoredType type = stored_type(step.spec.train.dtype);
  std::vector<TensorHead> heads;
  for (const auto& [name, parts] : places) {
    heads.push_back({name, type, parts.front().tensor.stored.shape});
  }
  sort_in_file_order(heads);
  std::optional<WeightFile> file;
  if (control.rank() == 0) file.emplace(path, heads);
  TensorGatherer gatherer(step, executor, control);
  std::vector<std::byte> stored;
  int64_t quiet = 0;
  const auto add = [&](const TensorHead& head) {
    if (file.has_value()) file->add(head.name, stored);
  };
  const auto when_rank_zero = [&](std::function<void()> action) {
    return file.has_value() ? std::move(action) : nullptr;
  };
  for (const TensorHead& head : heads) {
    const int64_t element = size_bytes(step.spec.train.dtype);
    if (file.has_value()) stored.resize(static_cast<size_t>(numel(head.shape) * element));
    for (const Place& place : places.at(head.name)) {
      const std::span<const std::byte> whole = gatherer.gather(place);
      if (file.has_value()) put_into_stored(place.tensor, whole, element, stored);
    }
    quiet += numel(head.shape) * element;
    if (quiet < kQuietBytes) {
      add(head);
      continue;
    }
    run_with_signs_of_life(control, when_rank_zero([&] { add(head); }));
    quiet = 0;
    if (on_growth) on_growth();
  }
  run_with_signs_of_life(control, when_rank_zero([&] { file->commit(); }));
  return text_of_rank_zero(control, file.has_value() ? file->failure() : "");
}

void save_weights(const std::string& path, const StepGraph& step, const Executor& executor,
                  Communicator& control) {
  const std::string failure = try_save_weights(path, step, executor, control);
  require(failure.empty(), "{}", failure);
}

}  // namespace tessera
