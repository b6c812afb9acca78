#include "train/samples/sample_ledger.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/text.h"
#include "spec/run_file/lanes.h"

namespace tessera {
namespace {

// The finish of SplitMix64: every bit of the number reaches every bit of the result.
uint64_t mixed(int64_t sample) {
  uint64_t x = static_cast<uint64_t>(sample) + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool counts_samples(const RunSpec& spec, const Program& program) {
  const Mesh& mesh = program.mesh;
  const bool first_rows =
      mesh.coord(program.rank, Axis::kCp) == 0 && mesh.coord(program.rank, Axis::kTp) == 0;
  const bool first_group = mesh.position(program.rank, sample_axes()) < distinct_replicas(spec);
  return program.tokens != kNoBuffer && first_rows && first_group;
}

}  // namespace

SampleLedger::SampleLedger(const RunSpec& spec, const Program& program)
    : counts_(counts_samples(spec, program)) {}

SampleSource SampleLedger::watch(const SampleSource& source, int64_t step) {
  if (!counts_) return source;
  Pending& pending = pending_[static_cast<size_t>(step % 2)];
  pending = {step, 0};
  return [&source, &pending](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    source(sample, tokens, labels);
    pending.sum += mixed(sample);
  };
}

void SampleLedger::count(int64_t step) {
  if (!counts_) return;
  const Pending& pending = pending_[static_cast<size_t>(step % 2)];
  TESSERA_CHECK(pending.step == step, "step {} was done with the inputs of {}", step, pending.step);
  mine_ += pending.sum;
}

// In halves, so that sums of ranks cannot overflow.
std::string SampleLedger::total(Communicator& control) const {
  if (!before_.has_value()) return "";
  std::array<int64_t, 2> halves = {static_cast<int64_t>(mine_ & 0xffffffffU),
                                   static_cast<int64_t>(mine_ >> 32)};
  control.all_reduce(halves.data(), 2, DType::kI64);
  return hex(*before_ + static_cast<uint64_t>(halves[0]) +
             (static_cast<uint64_t>(halves[1]) << 32));
}

void SampleLedger::restore(const nlohmann::json& state) {
  mine_ = 0;
  before_.reset();
  const auto text = state.get<std::string>();
  if (text.empty()) return;
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (failure != std::errc() || end != text.data() + text.size()) {
    throw Error(fmt::format("state.json is damaged: samples_hash {} is no hexadecimal number; use "
                            "another checkpoint",
                            in_quotes(text, 40)),
                ExitCode::kCorrupt);
  }
  before_ = value;
}

}  // namespace tessera
