#include "plan/fit_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/rounding.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

using AxisSize = int64_t ParallelSpec::*;

// An axis grows by at most this factor; what needs more is another run.
constexpr int64_t kMostFactor = 16;

// A part of a stage is compiled block by block: large ones take longer than they are worth.
constexpr int64_t kMostBlocksAgain = 12;

class Space {
 public:
  Space(const RunSpec& spec, const Cluster& cluster)
      : spec_(spec), p_(spec.parallel), cluster_(cluster) {}

  std::vector<SpaceChange> list() {
    split();
    experts();
    schedule();
    micro_batch();
    sharding();
    precision();
    recompute();
    return std::move(changes_);
  }

 private:
  void add(FitSubject subject, std::function<bool(RunSpec&)> apply) {
    changes_.push_back({subject, std::move(apply)});
  }
  void split();
  void grow(FitSubject subject, AxisSize axis, int64_t most, AxisSize instead);
  void experts();
  void schedule();
  void micro_batch();
  void sharding();
  void precision();
  void recompute();

  const RunSpec& spec_;
  const ParallelSpec& p_;
  const Cluster& cluster_;
  std::vector<SpaceChange> changes_;
};

// Ranks for `axis` come from the replicas; where these do not divide, from `instead`.
bool take_ranks(ParallelSpec& p, AxisSize axis, int64_t factor, AxisSize instead) {
  for (const AxisSize from : {&ParallelSpec::dp, &ParallelSpec::fsdp, instead}) {
    if (from == axis || p.*from % factor != 0) continue;
    p.*from /= factor;
    p.*axis *= factor;
    if (axis == &ParallelSpec::pp || from == &ParallelSpec::pp) p.stage_layers.clear();
    return true;
  }
  return false;
}

void Space::grow(FitSubject subject, AxisSize axis, int64_t most, AxisSize instead) {
  for (int64_t factor = 2; factor <= kMostFactor && p_.*axis * factor <= most; factor *= 2) {
    add(subject, [=](RunSpec& s) { return take_ranks(s.parallel, axis, factor, instead); });
  }
}

void Space::split() {
  grow(FitSubject::kTensor, &ParallelSpec::tp, cluster_.node_devices(), &ParallelSpec::pp);
  grow(FitSubject::kPipeline, &ParallelSpec::pp, spec_.model.layers, &ParallelSpec::tp);
  grow(FitSubject::kContext, &ParallelSpec::cp, spec_.train.seq_len / 2, &ParallelSpec::tp);
}

// From tp, cp and fsdp as they are, or from a part of dp that becomes fsdp for it.
void Space::experts() {
  if (spec_.model.experts == 0) return;
  std::set<int64_t> sizes;
  for (const int64_t a : {int64_t{1}, p_.tp}) {
    for (const int64_t b : {int64_t{1}, p_.cp}) {
      for (const int64_t c : {int64_t{1}, p_.fsdp}) sizes.insert(a * b * c);
    }
  }
  for (const int64_t ep : sizes) {
    if (ep <= p_.ep || spec_.model.experts % ep != 0) continue;
    add(FitSubject::kExperts, [ep](RunSpec& s) {
      s.parallel.ep = ep;
      return true;
    });
  }
  if (p_.fsdp > 1) return;
  for (int64_t ep = 2; ep <= p_.dp && ep <= spec_.model.experts; ep *= 2) {
    if (sizes.contains(ep) || p_.dp % ep != 0 || spec_.model.experts % ep != 0) continue;
    add(FitSubject::kExperts, [ep, zero = p_.zero](RunSpec& s) {
      if (s.parallel.dp % ep != 0) return false;
      s.parallel.ep = s.parallel.fsdp = ep;
      s.parallel.dp /= ep;
      s.parallel.zero = zero;
      return true;
    });
  }
}

// Fewer micro-batches in flight, or fewer stages on a rank; of 1f1b there is nothing to win.
void Space::schedule() {
  if (p_.pp == 1 || p_.schedule == PipelineKind::k1F1B || p_.schedule.is_file()) return;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.asynchronous || kind.kind == PipelineKind::kNaive || kind.kind == PipelineKind::kGPipe)
      continue;
    std::vector<int64_t> stages = {kind.virtual_stages};
    if (kind.any_virtual_stages) {
      for (int64_t more = 2 * kind.virtual_stages; more < p_.virtual_stages; more *= 2) {
        stages.push_back(more);
      }
    }
    for (const int64_t virtual_stages : stages) {
      if (p_.schedule == kind.kind && virtual_stages >= p_.virtual_stages) continue;
      add(FitSubject::kSchedule, [named = kind.kind, virtual_stages](RunSpec& s) {
        s.parallel.schedule = named;
        s.parallel.virtual_stages = virtual_stages;
        s.parallel.schedule_group = 0;
        s.parallel.stage_layers.clear();
        return true;
      });
    }
  }
}

void Space::micro_batch() {
  for (int64_t size = spec_.train.micro_batch / 2; size >= 1; size /= 2) {
    if (spec_.train.micro_batch % size != 0) continue;
    add(FitSubject::kMicroBatch, [size](RunSpec& s) {
      s.train.micro_batch = size;
      return true;
    });
  }
}

// A higher stage over the ranks that share the states now, or all of it over a part of dp.
void Space::sharding() {
  if (p_.replicas() * p_.cp == 1) return;
  for (int64_t zero = p_.zero + 1; zero <= 3; ++zero) {
    add(FitSubject::kSharding, [zero](RunSpec& s) {
      s.parallel.zero = zero;
      return true;
    });
  }
  if (!p_.release_after_forward) {
    add(FitSubject::kSharding, [](RunSpec& s) {
      s.parallel.zero = 3;
      s.parallel.release_after_forward = true;
      return true;
    });
  }
  for (int64_t factor = 4; factor < p_.dp && factor <= 64; factor *= 4) {
    add(FitSubject::kSharding, [factor](RunSpec& s) {
      if (s.parallel.dp % factor != 0 || s.parallel.dp == factor) return false;
      s.parallel.fsdp *= factor;
      s.parallel.dp /= factor;
      s.parallel.zero = 3;
      return true;
    });
  }
}

void Space::precision() {
  if (!p_.sequence_parallel) {
    add(FitSubject::kSequence, [](RunSpec& s) {
      s.parallel.sequence_parallel = true;
      return s.parallel.tp > 1;
    });
  }
  if (spec_.train.dtype == DType::kBF16 && spec_.train.gradients != DType::kBF16) {
    add(FitSubject::kGradients, [](RunSpec& s) {
      s.train.gradients = DType::kBF16;
      return true;
    });
  }
}

// More of what a choice keeps, for all blocks, or whole blocks for a part of every stage.
void Space::recompute() {
  constexpr auto& kKinds = kNamesOf<Recompute>;  // each keeps less than the one before
  const auto now = std::find(kKinds.begin(), kKinds.end(), p_.recompute);
  const bool own = now == kKinds.end();  // parts, stages or groups that the user chose
  for (auto kind = own ? kKinds.end() - 1 : now + 1; kind != kKinds.end(); ++kind) {
    add(FitSubject::kRecompute, [kind = *kind](RunSpec& s) {
      s.parallel.recompute = kind;
      return true;
    });
  }
  if (own || *now == name_of(Recompute::kFull)) return;
  for (const int64_t quarters : {1, 2, 3}) {
    add(FitSubject::kRecompute, [quarters, rest = *now](RunSpec& s) {
      const int64_t stages = s.parallel.pp * std::max<int64_t>(1, s.parallel.virtual_stages);
      const int64_t blocks = ceil_div(s.model.layers, stages);
      const int64_t again = blocks * quarters / 4;
      if (again < 1 || again > kMostBlocksAgain) return false;
      s.parallel.recompute = fmt::format("full:{}+{}", again, rest);
      return true;
    });
  }
}

struct WholeKey {
  std::string_view name;
  AxisSize size;
};

}  // namespace

std::vector<SpaceChange> fit_space(const RunSpec& spec, const Cluster& cluster) {
  return Space(spec, cluster).list();
}

std::vector<std::string> settings_between(const RunSpec& before, const RunSpec& after) {
  constexpr std::array<WholeKey, 6> kAxes = {{{"tp", &ParallelSpec::tp},
                                              {"pp", &ParallelSpec::pp},
                                              {"cp", &ParallelSpec::cp},
                                              {"fsdp", &ParallelSpec::fsdp},
                                              {"dp", &ParallelSpec::dp},
                                              {"ep", &ParallelSpec::ep}}};
  const ParallelSpec& a = before.parallel;
  const ParallelSpec& b = after.parallel;
  std::vector<std::string> settings;
  const auto set = [&](bool differs, std::string_view key, const auto& value) {
    if (differs) settings.push_back(fmt::format("{}={}", key, value));
  };
  const bool moved = std::any_of(kAxes.begin(), kAxes.end() - 1,
                                 [&](const WholeKey& key) { return a.*key.size != b.*key.size; });
  for (const WholeKey& key : kAxes) {
    const bool named = key.size == &ParallelSpec::dp ? moved : a.*key.size != b.*key.size;
    set(named, fmt::format("parallel.{}", key.name), b.*key.size);
  }
  set(a.stage_layers != b.stage_layers, "parallel.stage_layers", "[]");
  set(a.schedule != b.schedule, "parallel.schedule", b.schedule.text());
  set(a.virtual_stages != b.virtual_stages, "parallel.virtual_stages", b.virtual_stages);
  set(a.schedule_group != b.schedule_group, "parallel.schedule_group", b.schedule_group);
  set(before.train.micro_batch != after.train.micro_batch, "train.micro_batch",
      after.train.micro_batch);
  // What is shared without being asked for depends on fsdp.
  set(a.zero != b.zero || (a.fsdp > 1) != (b.fsdp > 1), "parallel.zero", b.zero);
  set(a.release_after_forward != b.release_after_forward, "parallel.release_after_forward",
      b.release_after_forward);
  set(a.sequence_parallel != b.sequence_parallel, "parallel.sequence_parallel",
      b.sequence_parallel);
  set(before.train.gradients != after.train.gradients, "train.gradients",
      name_of(after.train.gradients));
  set(a.recompute != b.recompute, "parallel.recompute", b.recompute);
  return settings;
}

}  // namespace tessera
