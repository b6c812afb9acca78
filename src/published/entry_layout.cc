// How an entry splits its step: the mesh, the sharing of states, the schedule, the batch.
#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "published/entry_parts.h"
#include "published/words.h"

namespace tessera {
namespace {

// So that sizes can be multiplied from here on.
void refuse_large(const EntryReading& r) {
  const Strategy& s = r.run.strategy;
  const auto replicas = static_cast<double>(r.parallel.whole("dp").value_or(1));
  const double devices = static_cast<double>(s.tp) * static_cast<double>(s.pp) *
                         static_cast<double>(s.cp) * std::max(1.0, replicas);
  require_config(devices <= static_cast<double>(kMaxDevices) && s.ep <= kMaxDevices &&
                     s.virtual_stages <= kMaxDevices,
                 "parallel asks for {:g} devices, ep {} and vp {}: at most {} are expected",
                 devices, s.ep, s.virtual_stages, kMaxDevices);
}

std::optional<int64_t> devices_of(const EntryReading& r) {
  if (const std::optional<int64_t> devices = r.hw.whole("gpus")) return devices;
  const std::optional<int64_t> nodes = r.hw.whole("nodes"), each = r.hw.whole("gpus_per_node");
  if (!nodes || !each || *nodes * *each <= 0) return std::nullopt;
  return *nodes * *each;
}

void read_replicas(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const std::optional<int64_t> devices = devices_of(r);
  const int64_t others = s.tp * s.pp * s.cp;
  if (const std::optional<int64_t> dp = r.parallel.whole("dp"); dp && *dp > 0) {
    s.dp = *dp;
    return;
  }
  r.dp_open = true;
  if (devices && *devices >= others) {
    s.dp = *devices / others;
    return;
  }
  r.replicas_open = true;
}

void read_zero(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const std::string text = r.parallel.text("zero");
  if (const std::optional<int64_t> stage = r.parallel.whole("zero")) {
    s.zero = *stage;
    return;
  }
  const std::string stage = text.empty() ? "open" : meaning("zero", text);
  r.zero_open = stage == "open";
  if (!stage.empty() && !r.zero_open) s.zero = stage.front() - '0';
  s.release_after_forward = !means("zero_keeps", text, "yes");
}

void read_schedule(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const std::string text = r.parallel.text("schedule");
  const std::string name = meaning("schedule", text);
  if (s.virtual_stages > 1) s.schedule = PipelineKind::kInterleaved;
  // Entries call interleaved stages 1f1b too.
  const std::optional<PipelineKind> kind = choice_named<PipelineKind>(name);
  if (kind && kind != PipelineKind::k1F1B) s.schedule = *kind;
  if (s.pp == 1) s.schedule = PipelineKind::k1F1B;
}

// Of a step, from whatever the entry counts in.
std::optional<int64_t> global_batch_of(const EntryReading& r, int64_t together) {
  if (const std::optional<int64_t> global = r.batch.whole("global")) return global;
  if (const std::optional<double> tokens = r.batch.real("tokens_per_batch")) {
    return static_cast<int64_t>(*tokens / static_cast<double>(r.run.workload.seq_len));
  }
  if (r.micro_open) return std::nullopt;
  for (const char* key : {"num_microbatches", "grad_accum"}) {
    if (const std::optional<int64_t> times = r.batch.whole(key); times && *times > 0) {
      return together * *times;
    }
  }
  return std::nullopt;
}

}  // namespace

void read_layout(EntryReading& r) {
  Strategy& s = r.run.strategy;
  s.cp = std::max<int64_t>(1, r.parallel.whole("cp").value_or(1));
  s.ep = std::max<int64_t>(1, r.parallel.whole("ep").value_or(1));
  read_zero(r);
  const std::optional<int64_t> tp = r.parallel.whole("tp"), pp = r.parallel.whole("pp");
  // Whoever shares the weights themselves needs no other split, and names it if there is one.
  const bool sharded = s.zero == 3;
  r.tp_open = !tp && !sharded;
  r.pp_open = !pp && !sharded;
  s.tp = std::max<int64_t>(1, tp.value_or(1));
  s.pp = std::max<int64_t>(1, pp.value_or(1));
  s.virtual_stages = std::max<int64_t>(1, r.parallel.whole("vp").value_or(1));
  r.virtual_open = r.parallel.find("vp") == nullptr && s.pp > 1;
  refuse_large(r);
  read_replicas(r);
  s.sequence_parallel = r.parallel.yes("sp") && s.tp > 1;
  read_schedule(r);
}

void read_batch(EntryReading& r) {
  Workload& w = r.run.workload;
  Strategy& s = r.run.strategy;
  w.seq_len = r.batch.need("seq");
  const std::optional<int64_t> micro = r.batch.whole("micro");
  r.micro_open = !micro || *micro == 0;
  s.micro_batch = std::max<int64_t>(1, micro.value_or(1));
  const int64_t together = s.dp * s.micro_batch;
  std::optional<int64_t> global = global_batch_of(r, together);
  if (!global) {
    global = together * std::max<int64_t>(1, 4 * s.pp);
    r.guess("global batch", fmt::format("{}", *global), false);
    r.global_known = false;
  }
  w.global_batch = std::max<int64_t>(1, (*global + together / 2) / together) * together;
  r.batch_scale = static_cast<double>(w.global_batch) / static_cast<double>(*global);
  if (w.global_batch != *global) {
    r.run.guesses.push_back(
        {"global batch", fmt::format("{} instead of {}, which {} replicas of "
                                     "micro-batches of {} do not divide",
                                     w.global_batch, *global, s.dp, s.micro_batch)});
  }
  const std::string part = meaning("zero_part", r.parallel.text("zero"));
  // A small model's first pods keep a replica each: gradients alone cross between them.
  if (part == "half" && s.dp % 2 == 0) s.shard = s.dp / 2;
  const int64_t node = w.cluster.node_devices() / (s.tp * s.pp);
  if (part == "node" && node > 1 && s.dp * s.cp % node == 0) s.shard = node;
}

}  // namespace tessera
