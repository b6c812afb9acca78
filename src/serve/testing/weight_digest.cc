#include "serve/testing/weight_digest.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "train/state/bucket_runs.h"

namespace tessera::serve::testing {
namespace {

// The finalizer of a multiplicative hash: every bit of the input reaches every bit.
uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

std::vector<HeldPart> held_parts(const Executor& executor, const StepGraph& step) {
  const Program& program = executor.program();
  std::vector<HeldPart> parts;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    if (!step.holds(program.rank, bucket.unit)) continue;
    const HostView view = executor.view(program.buckets[b].weights);
    const int64_t element = size_bytes(view.tensor.dtype);
    for_each_tensor(bucket, [&](const LogicalTensor& tensor) {
      const int64_t position = split_position(step, bucket, program.rank);
      const Piece piece = piece_of(tensor, position);
      HeldPart part{tensor.name,
                    {piece.first_row, piece.num_rows, piece.first_col, piece.num_cols},
                    piece.num_rows * piece.num_cols,
                    0};
      for_each_row(tensor, position, [&](int64_t first, int64_t at, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          uint64_t bits = 0;
          std::memcpy(&bits, view.tensor.as<std::byte>() + (at + i) * element,
                      static_cast<size_t>(element));
          part.sum += mixed(bits + mixed(static_cast<uint64_t>(first + i) + 1));
        }
      });
      if (part.elements > 0) parts.push_back(std::move(part));
    });
  }
  return parts;
}

WeightDigest whole_digest(const std::vector<std::vector<HeldPart>>& ranks,
                          const ParameterLayout& layout) {
  std::map<std::pair<std::string, std::vector<int64_t>>, uint64_t> seen;
  std::map<std::string, int64_t> elements;
  WeightDigest digest;
  for (const std::vector<HeldPart>& parts : ranks) {
    for (const HeldPart& part : parts) {
      const auto [found, is_new] = seen.emplace(std::pair{part.tensor, part.rectangle}, part.sum);
      EXPECT_EQ(found->second, part.sum) << part.tensor << " differs from rank to rank";
      if (!is_new) continue;
      elements[part.tensor] += part.elements;
      digest[part.tensor] += part.sum;
    }
  }
  for (const Bucket& bucket : layout.buckets) {
    for_each_tensor(bucket, [&](const LogicalTensor& tensor) {
      EXPECT_EQ(elements[tensor.name], numel(tensor.shape)) << tensor.name;
    });
  }
  return digest;
}

}  // namespace tessera::serve::testing
