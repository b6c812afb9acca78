#include "search/stage_choice.h"

#include <algorithm>

#include "cost/step/rank_trial.h"
#include "cost/step/stages.h"

namespace tessera {
namespace {

// Where strategies are compared by what stages compute again, all of them may.
Strategy by_layers(const Strategy& strategy) {
  Strategy s = strategy;
  s.recompute = Recompute::kFull;
  s.recompute_layers = -1;
  s.stage_layers.clear();
  s.stage_recompute.clear();
  return s;
}

// The fewest of a rank's layers that must be computed again to fit; -1: it does not fit. One layer
// needs room to be computed again, from then on each frees memory.
int64_t fewest_of(const RankTrial& prices, int64_t rank, int64_t layers, int64_t limit,
                  int64_t guess) {
  const int64_t room = limit - prices.fixed_bytes(rank, layers);
  const auto fits = [&](int64_t again) {
    return prices.activation_bytes(rank, layers, again) <= room;
  };
  if (fits(0)) return 0;
  if (layers == 0 || !fits(layers)) return -1;
  // Ranks differ little from the one before, so the answer is near the guess.
  int64_t few = 0, enough = layers;
  for (int64_t width = 1; guess > 0 && guess < enough; width *= 2) {
    if (!fits(guess)) {
      few = guess;
      guess += width;
    } else {
      enough = guess;
      guess -= width;
    }
    if (guess <= few) break;
  }
  while (enough - few > 1) {
    const int64_t middle = (few + enough) / 2;
    (fits(middle) ? enough : few) = middle;
  }
  return enough;
}

// Whether every inner rank keeps as many micro-batches; none keeps more than rank 1 does.
bool keep_alike(const Workload& w, const Strategy& s) {
  const int64_t micro_batches = std::max<int64_t>(1, w.global_batch / (s.dp * s.micro_batch));
  return live_micro_batches(s, 1, micro_batches) == live_micro_batches(s, s.pp - 1, micro_batches);
}

// What ranks cost, with what many of them share computed once.
class RankTable {
 public:
  RankTable(const RankTrial& prices, const Workload& w, const Strategy& s, int64_t limit)
      : prices_(prices),
        limit_(limit),
        keeps_alike_(keep_alike(w, s)),
        inner_again_(static_cast<size_t>(w.model.layers) + 1, kUnknown),
        inner_s_(static_cast<size_t>(w.model.layers) + 1, -1) {}

  // As fewest_of.
  int64_t fewest(int64_t rank, int64_t layers, int64_t guess) {
    if (prices_.is_end(rank)) return fewest_of(prices_, rank, layers, limit_, guess);
    // Rank 1 is the first of the inner ones, and keeps the most.
    int64_t& first = inner_again_[static_cast<size_t>(layers)];
    if (first == kUnknown) first = fewest_of(prices_, 1, layers, limit_, guess);
    if (first == 0 || keeps_alike_) return first;
    return fewest_of(prices_, rank, layers, limit_, guess);
  }

  double seconds(int64_t rank, int64_t layers, int64_t again) {
    if (again > 0 || prices_.is_end(rank)) return prices_.seconds(rank, layers, again);
    double& inner = inner_s_[static_cast<size_t>(layers)];
    if (inner < 0) inner = prices_.seconds(rank, layers, 0);
    return inner;
  }

 private:
  static constexpr int64_t kUnknown = -2;
  const RankTrial& prices_;
  int64_t limit_;
  bool keeps_alike_;
  std::vector<int64_t> inner_again_;
  std::vector<double> inner_s_;
};

// Gives layers one by one to the rank that is best after it has one more. Whatever grows with the
// layers of a rank, the largest of all ranks is then as small as it can be. `grown(rank, layers)`
// is negative where the rank cannot have so many.
template <typename Grown>
std::optional<std::vector<int64_t>> fill(int64_t ranks, int64_t least, int64_t layers,
                                         const Grown& grown) {
  struct Next {
    double value;
    int64_t rank;
    // The heap has the largest on top: the best, and of equal ones the last rank, which keeps the
    // fewest micro-batches.
    bool operator<(const Next& other) const {
      return value != other.value ? value > other.value : rank < other.rank;
    }
  };
  std::vector<int64_t> of_rank(static_cast<size_t>(ranks), least);
  std::vector<Next> heap;
  const auto push = [&](int64_t rank) {
    const double value = grown(rank, of_rank[static_cast<size_t>(rank)] + 1);
    if (value < 0) return;
    heap.push_back({value, rank});
    std::push_heap(heap.begin(), heap.end());
  };
  for (int64_t rank = 0; rank < ranks; ++rank) push(rank);
  for (int64_t left = layers - ranks * least; left > 0; --left) {
    if (heap.empty()) return std::nullopt;
    std::pop_heap(heap.begin(), heap.end());
    const int64_t rank = heap.back().rank;
    heap.pop_back();
    ++of_rank[static_cast<size_t>(rank)];
    push(rank);
  }
  return of_rank;
}

// Gives the layers of a rank to its stages: as equal as they can be, and more where there is no
// embedding and no head.
void spread(const Strategy& s, int64_t rank, int64_t layers, std::vector<int64_t>& of_stage) {
  const int64_t count = s.virtual_stages, last = s.pp * count - 1;
  int64_t left = layers % count;
  for (const bool ends : {false, true}) {
    for (int64_t chunk = 0; chunk < count; ++chunk) {
      const int64_t stage = stage_of_rank(s, rank, chunk);
      if ((stage == 0 || stage == last) != ends) continue;
      of_stage[static_cast<size_t>(stage)] = layers / count + (left > 0 ? 1 : 0);
      left -= left > 0 ? 1 : 0;
    }
  }
}

}  // namespace

bool can_choose_stages(const Workload& w, const Strategy& s) {
  const bool alike = w.model.experts == 0 || w.model.dense_layers == 0;
  return s.pp > 1 && alike && s.pp * s.virtual_stages <= w.model.layers;
}

std::optional<StageChoice> fewest_again(CostModel& model, const Strategy& strategy, int64_t limit) {
  const Strategy s = by_layers(strategy);
  const RankTrial prices = model.rank_trial(s);
  RankTable table(prices, model.workload(), s, limit);
  const StageLayers layers(model.workload().model, strategy);
  StageChoice choice;
  int64_t guess = 0;
  for (int64_t rank = 0; rank < s.pp; ++rank) {
    choice.layers.push_back(layers.of_rank(rank).total());
    guess = table.fewest(rank, choice.layers.back(), guess);
    if (guess < 0) return std::nullopt;
    choice.again.push_back(guess);
  }
  return choice;
}

std::optional<StageChoice> shortest_stages(CostModel& model, const Strategy& strategy,
                                           int64_t limit) {
  const Strategy s = by_layers(strategy);
  const RankTrial prices = model.rank_trial(s);
  RankTable table(prices, model.workload(), s, limit);
  StageChoice choice;
  std::vector<int64_t> tried(static_cast<size_t>(s.pp), 0);  // of the layers asked about last
  choice.again.assign(static_cast<size_t>(s.pp), 0);
  // A rank that gets the layer it was asked about computes again what was found then.
  const auto grown = [&](int64_t rank, int64_t layers) -> double {
    const auto i = static_cast<size_t>(rank);
    choice.again[i] = tried[i];
    tried[i] = table.fewest(rank, layers, tried[i]);
    return tried[i] < 0 ? -1 : table.seconds(rank, layers, tried[i]);
  };
  for (int64_t rank = 0; rank < s.pp; ++rank) {
    if (grown(rank, s.virtual_stages) < 0) return std::nullopt;
  }
  std::optional<std::vector<int64_t>> layers =
      fill(s.pp, s.virtual_stages, model.workload().model.layers, grown);
  if (!layers.has_value()) return std::nullopt;
  choice.layers = std::move(*layers);
  return choice;
}

double least_busiest_s(CostModel& model, const Strategy& strategy) {
  const Strategy s = by_layers(strategy);
  const RankTrial prices = model.rank_trial(s);
  const int64_t last = s.pp - 1, least = s.virtual_stages;
  // With nothing computed again every layer adds the same. Ranks come in three kinds.
  struct Kind {
    double base_s;  // with the least layers
    int64_t ranks;
  };
  const auto base_s = [&](int64_t rank) { return prices.seconds(rank, least, 0); };
  std::vector<Kind> kinds = {{base_s(0), 1}};
  if (prices.is_end(last)) kinds.push_back({base_s(last), 1});
  const int64_t inner = s.pp - static_cast<int64_t>(kinds.size());
  if (inner > 0) kinds.push_back({base_s(1), inner});
  const double layer_s = prices.seconds(0, least + 1, 0) - kinds.front().base_s;
  const int64_t more = model.workload().model.layers - least * s.pp;  // layers to give away
  double longest = 0, mean = static_cast<double>(more) * layer_s;
  for (const Kind& kind : kinds) {
    longest = std::max(longest, kind.base_s);
    mean += static_cast<double>(kind.ranks) * kind.base_s;
  }
  mean /= static_cast<double>(s.pp);
  constexpr double kRounding = 1e-9;
  const auto holds = [&](double busiest) {
    int64_t given = 0;
    for (const Kind& kind : kinds) {
      given += kind.ranks * static_cast<int64_t>((busiest - kind.base_s) / layer_s + kRounding);
    }
    return given >= more;
  };
  if (layer_s <= 0 || holds(longest)) return std::max(mean, longest) * (1 - kRounding);
  // The busiest rank is of some kind, with so many layers that ranks up to its time hold all.
  double best = -1;
  for (const Kind& kind : kinds) {
    const double from = std::max(mean, longest);
    auto layers = static_cast<int64_t>((from - kind.base_s) / layer_s);
    while (!holds(kind.base_s + static_cast<double>(layers) * layer_s)) ++layers;
    const double busiest = kind.base_s + static_cast<double>(layers) * layer_s;
    if (best < 0 || busiest < best) best = busiest;
  }
  return std::max(mean, best) * (1 - kRounding);
}

std::optional<StageChoice> smallest_stages(CostModel& model, const Strategy& strategy) {
  const Strategy s = by_layers(strategy);
  const RankTrial prices = model.rank_trial(s);
  const auto grown = [&](int64_t rank, int64_t layers) {
    return static_cast<double>(
        std::min(prices.bytes(rank, layers, layers), prices.bytes(rank, layers, 0)));
  };
  std::optional<std::vector<int64_t>> layers =
      fill(s.pp, s.virtual_stages, model.workload().model.layers, grown);
  if (!layers.has_value()) return std::nullopt;
  StageChoice choice;
  choice.layers = std::move(*layers);
  for (int64_t rank = 0; rank < s.pp; ++rank) {
    const int64_t here = choice.layers[static_cast<size_t>(rank)];
    const bool all = prices.bytes(rank, here, here) < prices.bytes(rank, here, 0);
    choice.again.push_back(all ? here : 0);
  }
  return choice;
}

Strategy with_stages(const Workload& w, const Strategy& strategy, const StageChoice& choice) {
  Strategy s = strategy;
  const int64_t stages = s.pp * s.virtual_stages;
  const EvenStages even_stages(w.model.layers, stages);
  bool even = true, none = true, all = true;
  s.stage_layers.assign(static_cast<size_t>(stages), 0);
  s.stage_recompute.assign(static_cast<size_t>(stages), 0);
  for (int64_t rank = 0; rank < s.pp; ++rank) {
    const int64_t asked = choice.layers[static_cast<size_t>(rank)];
    int64_t sum = 0;
    for (int64_t chunk = 0; chunk < s.virtual_stages; ++chunk) {
      const int64_t stage = stage_of_rank(s, rank, chunk);
      sum += s.stage_layers[static_cast<size_t>(stage)] = even_stages.layers_of(stage);
    }
    // A rank with as many as even stages have keeps those.
    if (sum != asked) spread(s, rank, asked, s.stage_layers);
    even = even && sum == asked;
    // As many of each stage as of the others, as far as it has them.
    for (int64_t left = choice.again[static_cast<size_t>(rank)], i = 0; left > 0; ++i) {
      const auto stage = static_cast<size_t>(stage_of_rank(s, rank, i % s.virtual_stages));
      if (s.stage_recompute[stage] >= s.stage_layers[stage]) continue;
      ++s.stage_recompute[stage];
      --left;
    }
  }
  for (size_t stage = 0; stage < s.stage_layers.size(); ++stage) {
    none = none && s.stage_recompute[stage] == 0;
    all = all && s.stage_recompute[stage] == s.stage_layers[stage];
  }
  if (even) s.stage_layers.clear();
  s.recompute = none ? Recompute::kNone : Recompute::kFull;
  s.recompute_layers = -1;
  if (none || all) s.stage_recompute.clear();
  return s;
}

}  // namespace tessera
