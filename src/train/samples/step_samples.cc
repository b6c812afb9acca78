#include "train/samples/step_samples.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "data/documents.h"
#include "data/set/block_sums.h"
#include "train/samples/batch.h"
#include "train/samples/run_sets.h"

namespace tessera {
namespace {

// Sequences one after another.
class SampleReader {
 public:
  explicit SampleReader(const RunSpec& given)
      : spec_(with_end_token(given)), samples_(training_samples(spec_)) {}

  [[nodiscard]] const RunSpec& spec() const { return spec_; }

  void read(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) const {
    samples_.fill(sample, tokens, labels);
  }
  void starts(int64_t sample, std::span<const int32_t> tokens, std::span<int32_t> starts) const {
    if (samples_.starts) return samples_.starts(sample, starts);
    find_document_starts(tokens, static_cast<int32_t>(spec_.data.end_token), starts);
  }

 private:
  RunSpec spec_;
  Samples samples_;
};

void require_steps(const StepRange& steps) {
  require_config(steps.first >= 1 && !steps.empty(), "steps count from 1, got {} to {}",
                 steps.first, steps.last);
}

int64_t first_sample(const RunSpec& spec, int64_t step) {
  return (step - 1) * spec.train.global_batch;
}

}  // namespace

std::vector<StepSamples> look_at_steps(const RunSpec& given, const StepRange& steps) {
  require_steps(steps);
  const SampleReader reader(given);
  const TrainSpec& train = reader.spec().train;
  std::vector<int32_t> tokens(static_cast<size_t>(train.seq_len)), labels(tokens.size());
  std::vector<StepSamples> result;
  for (int64_t step = steps.first; step <= steps.last; ++step) {
    StepSamples seen{step, first_sample(reader.spec(), step), train.global_batch};
    for (int64_t i = 0; i < train.global_batch; ++i) {
      reader.read(seen.first_sample + i, tokens, labels);
      seen.labels += std::count_if(labels.begin(), labels.end(), [](int32_t x) { return x >= 0; });
      for (const std::vector<int32_t>* ids : {&tokens, &labels}) {
        seen.crc32 = crc32_of(std::as_bytes(std::span(*ids)), seen.crc32);
      }
    }
    result.push_back(seen);
  }
  return result;
}

void write_samples(const RunSpec& given, const StepRange& steps, const std::string& path) {
  require_steps(steps);
  const SampleReader reader(given);
  const auto seq_len = static_cast<size_t>(reader.spec().train.seq_len);
  const int64_t sequences = steps.count() * reader.spec().train.global_batch;
  const size_t all = static_cast<size_t>(sequences) * seq_len;
  const bool masks = reader.spec().data.document_mask;
  std::vector<int32_t> tokens(all), labels(all), starts(masks ? all : 0);
  const int64_t first = first_sample(reader.spec(), steps.first);
  for (int64_t i = 0; i < sequences; ++i) {
    const size_t at = static_cast<size_t>(i) * seq_len;
    const std::span<int32_t> mine = std::span(tokens).subspan(at, seq_len);
    reader.read(first + i, mine, std::span(labels).subspan(at, seq_len));
    if (masks) reader.starts(first + i, mine, std::span(starts).subspan(at, seq_len));
  }
  const std::vector<int64_t> shape = {sequences, reader.spec().train.seq_len};
  std::vector<TensorToWrite> tensors = {
      {"tokens", StoredType::kI32, shape, std::as_bytes(std::span(tokens))},
      {"labels", StoredType::kI32, shape, std::as_bytes(std::span(labels))}};
  if (masks) {
    tensors.push_back(
        {"document_starts", StoredType::kI32, shape, std::as_bytes(std::span(starts))});
  }
  write_safetensors(path, tensors, {});
}

}  // namespace tessera
