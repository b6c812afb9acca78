// How an entry splits its step: the mesh, the sharing of states, the schedule.
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
  if (const std::optional<int64_t> devices = r.hw.count("gpus")) return devices;
  const std::optional<int64_t> nodes = r.hw.count("nodes"), each = r.hw.count("gpus_per_node");
  if (!nodes || !each) return std::nullopt;
  return *nodes * *each;
}

void read_replicas(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const std::optional<int64_t> devices = devices_of(r);
  const int64_t others = s.tp * s.pp * s.cp;
  if (const std::optional<int64_t> dp = r.parallel.whole("dp"); dp && *dp > 0) {
    s.dp = *dp;
    r.dp_said = dp;
    // The rest of the devices is left for the open axes.
    if ((r.tp_open || r.pp_open) && devices && *devices > others * *dp) s.dp = *devices / others;
    return;
  }
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

// With a pipeline, engines that share weights or gradients gather the weights once in a step, keep
// them, and sum gradients with the last micro-batch: for every micro-batch it would cost more than
// the kernels. In time that is ZeRO-1.
void share_once_in_pipeline(EntryReading& r) {
  Strategy& s = r.run.strategy;
  if (s.zero < 2 || s.zero > 3 || s.pp == 1) return;
  if (means("zero_keeps", r.parallel.text("zero"), "no")) return;
  r.guess("ZeRO",
          fmt::format("1 instead of {}: with a pipeline, weights and gradients are whole from "
                      "the first micro-batch to the last",
                      s.zero),
          true);
  s.zero = 1;
}

void read_schedule(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const std::string text = r.parallel.text("schedule");
  const std::string name = meaning("schedule", text);
  if (s.virtual_stages > 1) s.schedule = PipelineKind::kInterleaved;
  // Entries call interleaved stages 1f1b too.
  const std::optional<PipelineKind> kind = choice_named<PipelineKind>(name);
  if (kind && kind != PipelineKind::k1F1B) s.schedule = *kind;
  if (s.pp == 1 && !r.pp_open) s.schedule = PipelineKind::k1F1B;
  r.schedule_open = name.empty() && s.schedule == PipelineKind::k1F1B;
}

void read_virtual_stages(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const std::optional<int64_t> said = r.parallel.whole("vp");
  if ((s.pp == 1 && !r.pp_open) || said.value_or(1) > 1) return;
  // Interleaving on one stage is none, so a 1 beside that word says nothing.
  r.virtual_open = !said || s.schedule == PipelineKind::kInterleaved;
  // A V has two stages on every rank.
  if (s.schedule != PipelineKind::kZbV && s.schedule != PipelineKind::kDualPipeV) return;
  s.virtual_stages = 2;
  r.virtual_open = false;
}

}  // namespace

void read_layout(EntryReading& r) {
  Strategy& s = r.run.strategy;
  s.cp = std::max<int64_t>(1, r.parallel.whole("cp").value_or(1));
  s.ep = std::max<int64_t>(1, r.parallel.whole("ep").value_or(1));
  read_zero(r);
  const std::optional<int64_t> tp = r.parallel.whole("tp"), pp = r.parallel.whole("pp");
  s.virtual_stages = std::max<int64_t>(1, r.parallel.whole("vp").value_or(1));
  // Whoever shares the weights themselves needs no other split, and names it if there is one.
  const bool sharded = s.zero == 3;
  r.tp_open = !tp && !sharded;
  r.pp_open = !pp && (!sharded || s.virtual_stages > 1);
  s.tp = std::max<int64_t>(1, tp.value_or(1));
  s.pp = std::max<int64_t>(1, pp.value_or(1));
  share_once_in_pipeline(r);
  refuse_large(r);
  read_replicas(r);
  s.sequence_parallel = r.parallel.yes("sp") && s.tp > 1;
  read_schedule(r);
  read_virtual_stages(r);
}

}  // namespace tessera
