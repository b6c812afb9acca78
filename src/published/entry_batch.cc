// The batch of an entry: sequences of a step, and of a micro-batch.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "published/entry_parts.h"
#include "published/words.h"

namespace tessera {
namespace {

constexpr int64_t kMostMicroBatch = 1024;
constexpr int64_t kMostAnyMicroBatch = 64;  // where the batch does not limit it
constexpr int64_t kUsualMicroBatches = 4;   // of a replica, for every pipeline rank
// A batch that is told in tokens ("2M") is known to a twentieth.
constexpr int64_t kRounding = 20;

// So that sizes can be multiplied from here on.
constexpr int64_t kMostOfAReplica = 100'000;

int64_t together(const Strategy& s) { return s.dp * s.micro_batch; }

std::optional<int64_t> size_of_replica(const EntryReading& r, const char* key) {
  const std::optional<int64_t> size = r.batch.whole(key);
  if (!size || *size == 0) return std::nullopt;
  require_config(*size <= kMostOfAReplica, "batch.{} is {}: at most {} is expected", key, *size,
                 kMostOfAReplica);
  return size;
}

BatchSaid batch_said(const EntryReading& r) {
  BatchSaid said;
  if (const std::optional<int64_t> global = r.batch.count("global")) {
    said.sequences = global;
  } else if (const std::optional<double> tokens = r.batch.real("tokens_per_batch")) {
    require_config(*tokens < 1e15, "batch.tokens_per_batch is {:g}: less than 1e15 is expected",
                   *tokens);
    said.sequences = static_cast<int64_t>(*tokens / static_cast<double>(r.run.workload.seq_len));
    said.about = true;
  }
  for (const char* key : {"num_microbatches", "grad_accum"}) {
    if (!said.micro_batches) said.micro_batches = size_of_replica(r, key);
  }
  return said;
}

// What is left of the batch for one of so many micro-batches.
void derive_micro_batch(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const BatchSaid& said = r.batch_said;
  if (!r.micro_open || !said.sequences || !said.micro_batches || r.tp_open || r.pp_open) return;
  const int64_t all = s.dp * *said.micro_batches;
  if (*said.sequences % all != 0) return;
  s.micro_batch = *said.sequences / all;
  r.micro_open = false;
  r.guess("micro-batch", fmt::format("{}, by the number of them", s.micro_batch), false);
}

void read_shard(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const std::string part = meaning("zero_part", r.parallel.text("zero"));
  // A small model's first pods keep a replica each: gradients alone cross between them.
  if (part == "half" && s.dp % 2 == 0) s.shard = s.dp / 2;
  const int64_t node = r.run.workload.cluster.node_devices() / (s.tp * s.pp);
  if (part == "node" && node > 1 && s.dp * s.cp % node == 0) s.shard = node;
}

}  // namespace

int64_t batch_of(const EntryReading& r, const Strategy& s) {
  const BatchSaid& said = r.batch_said;
  const int64_t unit = together(s);
  if (!said.sequences && said.micro_batches) return unit * *said.micro_batches;
  const int64_t usual = kUsualMicroBatches * s.pp * (r.micro_open ? s.dp : unit);
  return std::max<int64_t>(1, (said.sequences.value_or(usual) + unit / 2) / unit) * unit;
}

std::vector<int64_t> possible_micro_batches(const EntryReading& r, const Strategy& strategy) {
  if (!r.micro_open) return {strategy.micro_batch};
  const BatchSaid& said = r.batch_said;
  const bool any = !said.sequences && said.micro_batches;
  Strategy one = strategy;
  one.micro_batch = 1;
  const int64_t replica = batch_of(r, one) / one.dp;
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= (any ? kMostAnyMicroBatch : std::min(replica, kMostMicroBatch));
       ++size) {
    const bool round = (size & (size - 1)) == 0;
    const int64_t off = std::abs((replica + size / 2) / size * size - replica);
    const bool near = said.about && off * kRounding <= replica;
    if (any || near ? round : replica % size == 0) sizes.push_back(size);
  }
  return sizes;
}

void read_batch(EntryReading& r) {
  Workload& w = r.run.workload;
  Strategy& s = r.run.strategy;
  w.seq_len = r.batch.need("seq");
  const std::optional<int64_t> micro = size_of_replica(r, "micro");
  r.micro_open = !micro;
  s.micro_batch = micro.value_or(1);
  r.batch_said = batch_said(r);
  derive_micro_batch(r);
  w.global_batch = batch_of(r, s);
  read_shard(r);
}

void note_batch(EntryReading& r) {
  const int64_t taken = r.run.workload.global_batch;
  const Strategy& s = r.run.strategy;
  const BatchSaid& said = r.batch_said;
  if (!said.known()) r.guess("global batch", fmt::format("{}", taken), false);
  if (!said.sequences || *said.sequences == taken) return;
  r.batch_scale = static_cast<double>(taken) / static_cast<double>(*said.sequences);
  r.run.guesses.push_back(
      {"global batch", fmt::format("{} instead of {}, which {} replicas of micro-batches of {} do "
                                   "not divide",
                                   taken, *said.sequences, s.dp, s.micro_batch)});
}

}  // namespace tessera
