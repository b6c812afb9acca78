// What an entry leaves open is chosen as its authors would have: the fastest that fits.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "cost/step/to_double.h"
#include "published/entry_parts.h"
#include "published/inference.h"
#include "published/memory_measures.h"
#include "published/words.h"

namespace tessera {
namespace {

constexpr int64_t kNodeDevices = 8;
constexpr int64_t kMostGuessed = 4096;
constexpr double kStateBytes = 18;  // of a weight: with its gradient, master copy and moments
constexpr int64_t kMostTensor = 8, kMostPipeline = 64;

// 1, 2, 4, ... where it is open, and what the entry says where it is not.
std::vector<int64_t> sizes(bool open, int64_t said, int64_t most) {
  if (!open) return {said};
  std::vector<int64_t> all;
  for (int64_t size = 1; size <= most; size *= 2) all.push_back(size);
  return all;
}

// Who leaves the layout open too would rather have had another one.
bool takes_measures(const EntryReading& r) { return r.recompute_open && !r.tp_open && !r.pp_open; }

struct Choice {
  Strategy strategy;
  int64_t global_batch = 0;
};

// Prices candidates and keeps the one with the shortest time of a sequence among those that fit.
// Where none does our memory is wrong, and a slower one would be no better a guess; but then it is
// the fastest with the smallest micro-batch, as whoever is short of memory has no larger one.
class FastestThatFits {
 public:
  void meet(const Choice& candidate, double step_s, bool fits) {
    const Rank rank = {!fits, fits ? 0 : candidate.strategy.micro_batch,
                       step_s / static_cast<double>(candidate.global_batch)};
    if (best_ && rank_ <= rank) return;
    best_ = candidate;
    rank_ = rank;
  }

  [[nodiscard]] const std::optional<Choice>& best() const { return best_; }

 private:
  using Rank = std::tuple<bool, int64_t, double>;  // the least is best
  std::optional<Choice> best_;
  Rank rank_;
};

class Choices {
 public:
  explicit Choices(const EntryReading& reading)
      : r_(reading), w_(reading.run.workload), memory_(w_, takes_measures(reading)) {}

  Choice choose() {
    const Strategy& said = r_.run.strategy;
    for (const int64_t tp : sizes(r_.tp_open, said.tp, kMostTensor)) {
      for (const int64_t pp : sizes(r_.pp_open, said.pp, kMostPipeline)) layout(tp, pp);
    }
    require_config(fastest_.best().has_value(), "no layout of {} devices is possible{}{}",
                   w_.cluster.devices, wrong_.empty() ? "" : ": ", wrong_);
    return *fastest_.best();
  }

 private:
  void layout(int64_t tp, int64_t pp) {
    Strategy s = r_.run.strategy;
    const bool open = r_.tp_open || r_.pp_open;
    s.tp = tp;
    s.pp = pp;
    if (pp == 1) s.schedule = PipelineKind::k1F1B;
    if (open) {
      const int64_t replicas = w_.cluster.devices / s.cp;
      if (replicas % (tp * pp) != 0) return;
      if (r_.dp_said && replicas / (tp * pp) != *r_.dp_said) return;
      s.dp = replicas / (tp * pp);
      s.sequence_parallel = s.sequence_parallel || tp > 1;
    }
    for (const int64_t micro : possible_micro_batches(r_, s)) {
      s.micro_batch = micro;
      if (!price_batch(batch_of(r_, s))) break;
      for (const int64_t zero : stages_of_zero()) {
        s.zero = s.pp > 1 ? std::min<int64_t>(zero, 1) : zero;  // see share_once_in_pipeline
        virtual_stages(s);
      }
    }
  }

  // False where the batch is larger than can be counted, and so than anybody's.
  bool price_batch(int64_t global_batch) {
    if (model_ && w_.global_batch == global_batch) return true;
    w_.global_batch = global_batch;
    try {
      model_.emplace(w_);
    } catch (const ConfigError& error) {
      note(error.what());
      return false;
    }
    memory_.price_batch(global_batch);
    return true;
  }

  void note(const std::string& wrong) {
    if (wrong_.empty()) wrong_ = wrong;
  }

  // Who speaks of ZeRO without a number has one; who is silent had a reason, unless it does not
  // fit.
  [[nodiscard]] std::vector<int64_t> stages_of_zero() const {
    if (!r_.zero_open) return {r_.run.strategy.zero};
    if (r_.tp_open || r_.pp_open) return {1};
    if (r_.parallel.text("zero").empty()) return {0, 1};
    return {1, 2, 3};
  }

  void virtual_stages(Strategy s) {
    if (!r_.virtual_open) return recompute(s);
    const int64_t layers = w_.model.layers;
    for (int64_t v = 1; v <= std::max<int64_t>(1, layers / s.pp); ++v) {
      // Equal stages, also where the embedding and the head count as layers.
      const int64_t stages = s.pp * v;
      const bool equal = layers % stages == 0 || (layers + 2) % stages == 0;
      if (v > 1 && (!equal || !interleaves())) continue;
      s.virtual_stages = v;
      if (v > 1) s.schedule = PipelineKind::kInterleaved;
      recompute(s);
    }
  }

  // Whether it is said, or may be as nothing else is.
  [[nodiscard]] bool interleaves() const {
    if (r_.run.strategy.schedule == PipelineKind::kInterleaved) return true;
    return r_.schedule_open && !means("plain_pipeline", r_.run.engine, "yes");
  }

  // Whether it fits.
  bool meet(const Strategy& s) {
    const bool fits = memory_.fits(s);
    fastest_.meet({s, w_.global_batch}, model_->step_s(s), fits);
    return fits;
  }

  // The first that fits, from what costs nothing to all layers; see memory_measures.h.
  void recompute(Strategy s) {
    if (const std::string wrong = why_impossible(w_, s); !wrong.empty()) return note(wrong);
    if (meet(s) || !r_.recompute_open) return;
    if (w_.attention == AttentionKind::kUnfused) {
      s.recompute = Recompute::kSelective;
      if (meet(s)) return;
    } else if (memory_.taken()) {
      s.elementwise_again = ElementwiseAgain::kNormsAndActivations;
      if (meet(s)) return;
      s.elementwise_again = ElementwiseAgain::kNone;
    }
    s.recompute = Recompute::kFull;
    s.recompute_layers = fewest_layers(s);
    meet(s);
  }

  // By pipeline rank: -1, all, where fewer do not fit.
  int64_t fewest_layers(Strategy s) {
    const int64_t layers = (w_.model.layers + s.pp - 1) / s.pp;
    int64_t few = 0, enough = layers;  // fewer layers never need less
    while (enough - few > 1) {
      s.recompute_layers = few + (enough - few) / 2;
      (memory_.fits(s) ? enough : few) = s.recompute_layers;
    }
    return enough == layers ? -1 : enough;
  }

  const EntryReading& r_;
  Workload w_;  // with the batch of the candidate
  std::optional<CostModel> model_;
  MemoryMeasures memory_;
  FastestThatFits fastest_;
  std::string wrong_;  // with the first candidate that cannot be
};

std::string recompute_text(const Strategy& s) {
  if (s.recompute == Recompute::kFull && s.recompute_layers >= 0) {
    return fmt::format("{} layers of a rank", s.recompute_layers);
  }
  if (s.elementwise_again != ElementwiseAgain::kNone) return "of norms and activations";
  return std::string(name_of(s.recompute));
}

// For its memory; what the number of devices is known for comes later.
void read_device(EntryReading& r) {
  const std::vector<Guess> guesses = r.run.guesses;
  read_cluster(r);
  r.run.guesses = guesses;
}

}  // namespace

// As many as the bytes of the states say; else enough for one node, for the experts' groups, and,
// where the layout is open too, for the states of the model.
void choose_replicas(EntryReading& r) {
  Strategy& s = r.run.strategy;
  Workload& w = r.run.workload;
  const int64_t others = s.tp * s.pp * s.cp;
  s.dp = s.ep / std::gcd(s.tp * s.cp, s.ep);
  std::string why = "a node, or what the experts need";
  if (const std::optional<double> bytes = r.results.real("steady_allocated_bytes")) {
    read_device(r);
    w.seq_len = r.batch.need("seq");
    w.global_batch = s.dp;
    const std::string wrong = why_impossible(w, s);
    require_config(wrong.empty(), "{}", wrong);
    s.dp = replicas_of_states(w, s, *bytes);
    why = "the bytes of the states";
  } else {
    while (others * s.dp < kNodeDevices) s.dp *= 2;
    if (r.tp_open && r.pp_open) {
      read_device(r);
      const double states = kStateBytes * to_double(w.model.parameters());
      const double half = w.cluster.device.memory_bytes.value / 2;
      while (states > half * to_double(others * s.dp) && others * s.dp < kMostGuessed) s.dp *= 2;
      why = "a node, or half of the memory for states";
    }
  }
  r.guess("number of devices", fmt::format("{}, by {}", others * s.dp, why), true);
}

void fill_open_choices(EntryReading& r) {
  if (!r.tp_open && !r.pp_open && !r.micro_open && !r.virtual_open && !r.recompute_open &&
      !r.zero_open) {
    return;
  }
  const Choice chosen = Choices(r).choose();
  r.run.workload.global_batch = chosen.global_batch;
  const Strategy& best = r.run.strategy = chosen.strategy;
  r.guess("what the source leaves open",
          fmt::format("tp {}, pp {}, dp {}, {} virtual stages, micro-batch {}, ZeRO {}, "
                      "recomputation {}: the fastest that fits{}",
                      best.tp, best.pp, best.dp, best.virtual_stages, best.micro_batch, best.zero,
                      recompute_text(best),
                      takes_measures(r) ? ", were gradients kept in 16 bits" : ""),
          true);
}

}  // namespace tessera
