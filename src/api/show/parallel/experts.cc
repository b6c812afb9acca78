#include "api/show/parallel/experts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "api/show/values.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/steady_exp.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ShowField::Kind;

constexpr ShowField kExpertsFields[] = {
    {"tokens", Kind::kWhole, "64", "of all ranks together", 1, 4096},
    {"experts", Kind::kWhole, "8", "of the layer", 1, 256},
    {"top_k", Kind::kWhole, "2", "experts of a token", 1, 16},
    {"ranks", Kind::kWhole, "4", "that share tokens and experts", 1, 64},
    {"capacity_factor", Kind::kReal, "1.25", "times an even share, per expert; 0: no limit", 0,
     1000},
    {"skew", Kind::kReal, "0", "0: the router likes all experts alike; 1: the first ones far more",
     0, 1},
    {"seed", Kind::kWhole, "1", "of the router's scores", 0, 1e15},
    {"hidden", Kind::kWhole, "4096", "width of a token, for its bytes", 1, 1e6},
};

struct Routing {
  int64_t tokens = 0, experts = 0, top_k = 0, ranks = 1;
  int64_t capacity = 0;                            // of an expert; 0: no limit
  std::vector<std::vector<int64_t>> choices = {};  // by token, the best first
  std::vector<std::vector<double>> weights = {};   // likewise; they sum to 1
  std::vector<std::vector<bool>> kept = {};        // likewise
  std::vector<int64_t> loads = {}, dropped = {};   // by expert
  std::vector<std::vector<int64_t>> sent = {};     // rows, by rank and rank; its own among them

  [[nodiscard]] int64_t rank_of_token(int64_t token) const { return token / (tokens / ranks); }
  [[nodiscard]] int64_t rank_of_expert(int64_t expert) const { return expert / (experts / ranks); }
  [[nodiscard]] int64_t received(int64_t rank) const {
    int64_t rows = 0;
    for (const std::vector<int64_t>& from : sent) rows += from[static_cast<size_t>(rank)];
    return rows;
  }
  // The busiest expert over an even share.
  [[nodiscard]] double imbalance() const {
    const int64_t most = *std::max_element(loads.begin(), loads.end());
    return static_cast<double>(most * experts) / static_cast<double>(tokens * top_k);
  }
  // To other ranks, of the rank that sends most.
  [[nodiscard]] int64_t most_sent() const {
    int64_t most = 0;
    for (size_t rank = 0; rank < sent.size(); ++rank) {
      const int64_t all = std::accumulate(sent[rank].begin(), sent[rank].end(), int64_t{0});
      most = std::max(most, all - sent[rank][rank]);
    }
    return most;
  }
};

// The score of an expert before the softmax. With a skew of 1 the first one leads the last by as
// much as makes it 50 times as likely.
double router_score(const ShowValues& values, int64_t token, int64_t expert) {
  constexpr double kLead = 4;
  const auto experts = values.whole("experts");
  const auto index = static_cast<uint64_t>(token * experts + expert);
  const double noise = 2 * uniform_at(static_cast<uint64_t>(values.whole("seed")), 0, index) - 1;
  const double place =
      experts > 1 ? static_cast<double>(experts - 1 - expert) / static_cast<double>(experts - 1)
                  : 0;
  return noise + values.real("skew") * kLead * place;
}

// The experts with the highest probability, ties to the lowest; weights are their probabilities
// divided by the sum.
void choose_experts(const ShowValues& values, int64_t token, Routing& routing) {
  std::vector<double> power;
  for (int64_t e = 0; e < routing.experts; ++e) {
    power.push_back(steady_exp(router_score(values, token, e)));
  }
  std::vector<int64_t> order(power.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int64_t expert) { return power[static_cast<size_t>(expert)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return at(a) > at(b); });
  order.resize(static_cast<size_t>(routing.top_k));
  double sum = 0;
  for (const int64_t expert : order) sum += at(expert);
  std::vector<double> weights;
  for (const int64_t expert : order) weights.push_back(at(expert) / sum);
  routing.choices.push_back(std::move(order));
  routing.weights.push_back(std::move(weights));
}

// In order of token: whoever comes when an expert is full is dropped.
void fill_experts(Routing& routing) {
  routing.loads.assign(static_cast<size_t>(routing.experts), 0);
  routing.dropped = routing.loads;
  routing.sent.assign(static_cast<size_t>(routing.ranks),
                      std::vector<int64_t>(static_cast<size_t>(routing.ranks), 0));
  for (int64_t token = 0; token < routing.tokens; ++token) {
    std::vector<bool> kept;
    for (const int64_t expert : routing.choices[static_cast<size_t>(token)]) {
      const auto e = static_cast<size_t>(expert);
      const bool fits = routing.capacity == 0 || routing.loads[e] < routing.capacity;
      ++routing.loads[e];
      kept.push_back(fits);
      if (!fits) {
        ++routing.dropped[e];
        continue;
      }
      const auto from = static_cast<size_t>(routing.rank_of_token(token));
      ++routing.sent[from][static_cast<size_t>(routing.rank_of_expert(expert))];
    }
    routing.kept.push_back(std::move(kept));
  }
}

Routing routed(const ShowValues& values) {
  Routing routing{.tokens = values.whole("tokens"),
                  .experts = values.whole("experts"),
                  .top_k = values.whole("top_k"),
                  .ranks = values.whole("ranks")};
  const int64_t ranks = routing.ranks;
  if (routing.experts % ranks != 0) {
    values.refuse("experts", fmt::format("a multiple of the {} ranks that share them", ranks));
  }
  if (routing.tokens % ranks != 0) {
    values.refuse("tokens", fmt::format("a multiple of the {} ranks that share them", ranks));
  }
  if (routing.top_k > routing.experts) {
    values.refuse("top_k", fmt::format("at most the {} experts", routing.experts));
  }
  const double factor = values.real("capacity_factor");
  const double even =
      static_cast<double>(routing.tokens * routing.top_k) / static_cast<double>(routing.experts);
  routing.capacity = factor == 0 ? 0 : static_cast<int64_t>(std::ceil(factor * even));
  for (int64_t token = 0; token < routing.tokens; ++token) {
    choose_experts(values, token, routing);
  }
  fill_experts(routing);
  return routing;
}

Json capacity_formula(const ShowValues& values, const Routing& routing) {
  return {{"formula", "ceil(factor * tokens * k / experts)"},
          {"numbers", fmt::format("ceil({:g} * {} * {} / {})", values.real("capacity_factor"),
                                  routing.tokens, routing.top_k, routing.experts)},
          {"value", routing.capacity}};
}

// There and back, of the rank that sends most.
Json bytes_formula(const ShowValues& values, const Routing& routing) {
  constexpr int64_t kBytes = 2;
  const int64_t hidden = values.whole("hidden"), rows = routing.most_sent();
  return {{"formula", "2 * rows * hidden * 2 bytes"},
          {"numbers", fmt::format("2 * {} * {} * {}", rows, hidden, kBytes)},
          {"value", 2 * rows * hidden * kBytes}};
}

Json experts_answer(const ShowValues& values, const Surroundings&) {
  const Routing routing = routed(values);
  Json token_ranks = Json::array(), expert_ranks = Json::array(), received = Json::array();
  for (int64_t t = 0; t < routing.tokens; ++t) token_ranks.push_back(routing.rank_of_token(t));
  for (int64_t e = 0; e < routing.experts; ++e) expert_ranks.push_back(routing.rank_of_expert(e));
  for (int64_t r = 0; r < routing.ranks; ++r) received.push_back(routing.received(r));
  return {{"tokens", routing.tokens},
          {"experts", routing.experts},
          {"top_k", routing.top_k},
          {"ranks", routing.ranks},
          {"capacity", routing.capacity},
          {"capacity_formula", capacity_formula(values, routing)},
          {"choices", routing.choices},
          {"weights", routing.weights},
          {"kept", routing.kept},
          {"loads", routing.loads},
          {"dropped", routing.dropped},
          {"dropped_share", static_cast<double>(std::accumulate(
                                routing.dropped.begin(), routing.dropped.end(), int64_t{0})) /
                                static_cast<double>(routing.tokens * routing.top_k)},
          {"sent", routing.sent},
          {"received", std::move(received)},
          {"bytes_formula", bytes_formula(values, routing)},
          {"imbalance", routing.imbalance()},
          {"expert_rank", std::move(expert_ranks)},
          {"token_rank", std::move(token_ranks)},
          {"note",
           "Training with Tessera drops no token: parallel.moe_capacity is room that must be "
           "enough."}};
}

std::string experts_text(const ShowValues& values, const Surroundings&) {
  const Routing routing = routed(values);
  std::string text =
      fmt::format("{} to {} of {} experts each, on {}\n\n", count_of(routing.tokens, "token"),
                  routing.top_k, routing.experts, count_of(routing.ranks, "rank"));
  TextTable experts({{"expert", Align::kRight},
                     {"rank", Align::kRight},
                     {"chosen", Align::kRight},
                     {"dropped", Align::kRight}});
  for (int64_t e = 0; e < routing.experts; ++e) {
    const auto i = static_cast<size_t>(e);
    experts.add_row({fmt::format("{}", e), fmt::format("{}", routing.rank_of_expert(e)),
                     fmt::format("{}", routing.loads[i]), fmt::format("{}", routing.dropped[i])});
  }
  text += experts.str() + "\nrows from rank to rank\n";
  for (const std::vector<int64_t>& row : routing.sent) {
    text += fmt::format("  {:5}\n", fmt::join(row, " "));
  }
  const Json bytes = bytes_formula(values, routing);
  text += fmt::format("\nthe busiest expert has {:.2f} times an even share\n", routing.imbalance());
  if (routing.capacity > 0) {
    const Json capacity = capacity_formula(values, routing);
    text += fmt::format("capacity of an expert: {} = {}\n", capacity["numbers"].get<std::string>(),
                        routing.capacity);
  }
  text += fmt::format("bytes of the rank that sends most, there and back: {} = {}\n",
                      bytes["numbers"].get<std::string>(),
                      with_thousands(bytes["value"].get<int64_t>()));
  return text;
}

}  // namespace

ShowTopic experts_topic() {
  return {"experts",
          "Which experts a router chooses, what is dropped, and what travels between ranks.",
          "--tokens 64 --experts 8 --top-k 2 --ranks 4 --skew 0.5",
          kExpertsFields,
          experts_answer,
          for_terminals(experts_text)};
}

}  // namespace tessera
