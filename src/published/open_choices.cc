// What an entry leaves open is chosen as its authors would have: the fastest that fits.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "published/entry_parts.h"
#include "published/inference.h"

namespace tessera {
namespace {

constexpr int64_t kNodeDevices = 8;
constexpr int64_t kMostTensor = 8, kMostPipeline = 64, kMostMicroBatch = 16;

// 1, 2, 4, ... where it is open, and what the entry says where it is not.
std::vector<int64_t> sizes(bool open, int64_t said, int64_t most) {
  if (!open) return {said};
  std::vector<int64_t> all;
  for (int64_t size = 1; size <= most; size *= 2) all.push_back(size);
  return all;
}

// Prices candidates and keeps the fastest that fits, or the fastest of all where none does: then
// our memory is wrong, and a slower one would be no better a guess.
class FastestThatFits {
 public:
  explicit FastestThatFits(const Workload& workload)
      : workload_(workload),
        model_(workload),
        room_(workload.cluster.device.memory_bytes.value -
              workload.cluster.device.reserved_bytes.value) {}

  // Whether it is possible and fits.
  bool meet(const Strategy& candidate) {
    if (!why_impossible(workload_, candidate).empty()) return false;
    const QuickEstimate estimate = model_.quick(candidate);
    const bool fits = static_cast<double>(estimate.peak_bytes) <= room_;
    const bool better = !found_ || (fits && !fits_) || (fits == fits_ && estimate.step_s < step_s_);
    if (better) {
      best_ = candidate;
      step_s_ = estimate.step_s;
      fits_ = fits;
      found_ = true;
    }
    return fits;
  }

  [[nodiscard]] bool found() const { return found_; }
  [[nodiscard]] const Strategy& best() const { return best_; }

 private:
  const Workload& workload_;
  CostModel model_;
  double room_;
  Strategy best_;
  double step_s_ = 0;
  bool fits_ = false, found_ = false;
};

class Choices {
 public:
  explicit Choices(const EntryReading& reading)
      : r_(reading), w_(reading.run.workload), fastest_(reading.run.workload) {}

  std::optional<Strategy> choose() {
    const Strategy& said = r_.run.strategy;
    for (const int64_t tp : sizes(r_.tp_open, said.tp, kMostTensor)) {
      for (const int64_t pp : sizes(r_.pp_open, said.pp, kMostPipeline)) layout(tp, pp);
    }
    return fastest_.found() ? std::optional(fastest_.best()) : std::nullopt;
  }

 private:
  void layout(int64_t tp, int64_t pp) {
    Strategy s = r_.run.strategy;
    const bool open = r_.tp_open || r_.pp_open;
    s.tp = tp;
    s.pp = pp;
    if (open) {
      const int64_t replicas = w_.cluster.devices / s.cp;
      if (replicas % (tp * pp) != 0) return;
      if (!r_.dp_open && replicas / (tp * pp) != s.dp) return;
      s.dp = replicas / (tp * pp);
      s.sequence_parallel = s.sequence_parallel || tp > 1;
    }
    for (const int64_t zero : stages_of_zero(s)) {
      s.zero = zero;
      for (const int64_t micro : sizes(r_.micro_open, s.micro_batch, kMostMicroBatch)) {
        s.micro_batch = micro;
        virtual_stages(s);
      }
    }
  }

  // Who speaks of ZeRO without a number has one; who is silent had a reason, unless it does not
  // fit.
  [[nodiscard]] std::vector<int64_t> stages_of_zero(const Strategy& s) const {
    if (!r_.zero_open) return {s.zero};
    if (r_.tp_open || r_.pp_open) return {1};
    if (r_.parallel.text("zero").empty()) return {0, 1};
    return {1, 2, 3};
  }

  void virtual_stages(Strategy s) {
    const int64_t layers = w_.model.layers;
    const int64_t most = r_.virtual_open ? std::max<int64_t>(1, layers / s.pp) : s.virtual_stages;
    for (int64_t v = r_.virtual_open ? 1 : most; v <= most; ++v) {
      // Equal stages, also where the embedding and the head count as layers.
      const int64_t stages = s.pp * v;
      const bool equal = layers % stages == 0 || (layers + 2) % stages == 0;
      if (r_.virtual_open && v > 1 && !equal) continue;
      s.virtual_stages = v;
      recompute(s);
    }
  }

  void recompute(Strategy s) {
    if (fastest_.meet(s) || !r_.recompute_open) return;
    if (w_.attention == AttentionKind::kUnfused) {
      s.recompute = Recompute::kSelective;
      fastest_.meet(s);
    }
    // As few layers as it takes.
    s.recompute = Recompute::kFull;
    const int64_t layers = (w_.model.layers + s.pp - 1) / s.pp;
    for (s.recompute_layers = 1; s.recompute_layers < layers; ++s.recompute_layers) {
      if (fastest_.meet(s)) return;
    }
    s.recompute_layers = -1;
    fastest_.meet(s);
  }

  const EntryReading& r_;
  const Workload& w_;
  FastestThatFits fastest_;
};

std::string recompute_text(const Strategy& s) {
  if (s.recompute == Recompute::kFull && s.recompute_layers >= 0) {
    return fmt::format("{} layers of a rank", s.recompute_layers);
  }
  return std::string(name_of(s.recompute));
}

}  // namespace

// As many as the bytes of the states say; else enough for one node, and for the experts' groups.
void choose_replicas(EntryReading& r) {
  Strategy& s = r.run.strategy;
  Workload& w = r.run.workload;
  const int64_t others = s.tp * s.pp * s.cp;
  s.dp = s.ep / std::gcd(s.tp * s.cp, s.ep);
  std::string why = "a node, or what the experts need";
  if (const std::optional<double> bytes = r.results.real("steady_allocated_bytes")) {
    const std::vector<Guess> guesses = r.run.guesses;
    read_cluster(r);
    r.run.guesses = guesses;
    w.seq_len = r.batch.need("seq");
    w.global_batch = s.dp;
    const std::string wrong = why_impossible(w, s);
    require_config(wrong.empty(), "{}", wrong);
    s.dp = replicas_of_states(w, s, *bytes);
    why = "the bytes of the states";
  } else {
    while (others * s.dp < kNodeDevices) s.dp *= 2;
  }
  r.guess("number of devices", fmt::format("{}, by {}", others * s.dp, why), true);
}

void fill_open_choices(EntryReading& r) {
  if (!r.tp_open && !r.pp_open && !r.micro_open && !r.virtual_open && !r.recompute_open &&
      !r.zero_open) {
    return;
  }
  const std::optional<Strategy> chosen = Choices(r).choose();
  require_config(chosen.has_value(), "no layout of {} devices divides the model",
                 r.run.workload.cluster.devices);
  const Strategy& best = r.run.strategy = *chosen;
  r.guess("what the source leaves open",
          fmt::format("tp {}, pp {}, dp {}, {} virtual stages, micro-batch {}, ZeRO {}, "
                      "recomputation {}: the fastest that fits",
                      best.tp, best.pp, best.dp, best.virtual_stages, best.micro_batch, best.zero,
                      recompute_text(best)),
          true);
}

}  // namespace tessera
