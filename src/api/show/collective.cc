#include "api/show/collective.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "api/show/values.h"
#include "base/error.h"
#include "base/text/noun.h"
#include "base/text/text.h"
#include "collective/cost.h"
#include "collective/play.h"
#include "collective/schedule_builder.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ShowField::Kind;
using enum CollectiveOp;

constexpr size_t kMostChunks = 128;  // of the whole array
constexpr int kMostDecimalRanks = 4;

constexpr ShowField kCollectiveFields[] = {
    {.name = "op",
     .kind = Kind::kChoice,
     .fallback = "all_reduce",
     .help = "the collective",
     .choices = "broadcast|scatter|gather|reduce|all_gather|reduce_scatter|all_reduce|all_to_all",
     .value_name = "OP"},
    {"ranks", Kind::kWhole, "4", "how many take part", 2, 16},
    {"algorithm", Kind::kText, "", "how it is done (default: ring where there is one)"},
    {"root", Kind::kWhole, "0", "the rank that has or gets everything", 0, 15},
    {"node_size", Kind::kWhole, "", "of hierarchical: ranks of a node (default: half of them)", 1,
     16},
    {"lost", Kind::kWhole, "", "a rank that is gone", 0, 15},
    {"lost_step", Kind::kWhole, "1", "from which step on", 1, 1000},
    {"values", Kind::kJson, "", "a list of numbers for each rank (default: digits)"},
};

struct AskedCollective {
  PlayRequest request;
  bool digits = false;  // every rank has a decimal place of its own
  PlayedCollective played;
  std::vector<std::string_view> phases;  // by step
  [[nodiscard]] int ranks() const { return static_cast<int>(request.values.size()); }
};

CollectiveOp op_named(const std::string& name) {
  for (int i = 0; i < kNumCollectiveOps; ++i) {
    const auto op = static_cast<CollectiveOp>(i);
    if (name_of(op) == name) return op;
  }
  throw ConfigError(fmt::format("collective: no op is called {}", in_quotes(name)));
}

Algorithm algorithm_of(const ShowValues& values, CollectiveOp op) {
  if (!values.has("algorithm")) {
    return supports(op, Algorithm::kRing) ? Algorithm::kRing : supported_algorithms(op).front();
  }
  const std::string name = values.text("algorithm");
  for (const Algorithm algorithm : supported_algorithms(op)) {
    if (name_of(algorithm) == name) return algorithm;
  }
  std::vector<std::string_view> known;
  for (const Algorithm algorithm : supported_algorithms(op)) known.push_back(name_of(algorithm));
  values.refuse("algorithm", fmt::format("one of {} for {}", fmt::join(known, ", "), name_of(op)));
}

// How many a rank contributes unless the request says.
int default_chunks(CollectiveOp op, int ranks) {
  return op == kGather || op == kAllGather ? 1 : ranks;
}

std::vector<std::vector<double>> default_values(CollectiveOp op, int ranks) {
  std::vector<std::vector<double>> rows(static_cast<size_t>(ranks));
  const int chunks = default_chunks(op, ranks);
  double place = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int c = 0; c < chunks; ++c) {
      const bool decimal = ranks <= kMostDecimalRanks;
      rows[static_cast<size_t>(rank)].push_back(decimal ? (c + 1) * place : rank * chunks + c + 1);
    }
    place *= 10;
  }
  return rows;
}

std::vector<double> row_of_values(const ShowValues& values, const nlohmann::json& row) {
  if (!row.is_array()) values.refuse("values", "a list of numbers for each rank");
  constexpr double kLargest = 1e12;  // sums of them are exact enough to compare
  std::vector<double> numbers;
  for (const nlohmann::json& item : row) {
    const bool fits = item.is_number() && std::abs(item.get<double>()) <= kLargest;
    if (!fits) values.refuse("values", "numbers from -1e12 to 1e12");
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

std::vector<std::vector<double>> given_values(const ShowValues& values, CollectiveOp op,
                                              int ranks) {
  const nlohmann::json& rows = values.json("values");
  if (!rows.is_array() || rows.size() != static_cast<size_t>(ranks)) {
    values.refuse("values", fmt::format("a list of {} lists, one for each rank", ranks));
  }
  std::vector<std::vector<double>> numbers;
  for (const nlohmann::json& row : rows) numbers.push_back(row_of_values(values, row));
  const size_t each = numbers[0].size();
  const bool equal = std::all_of(numbers.begin(), numbers.end(),
                                 [&](const auto& row) { return row.size() == each; });
  if (!equal || each == 0) values.refuse("values", "equally many numbers for each rank");
  const size_t all = op == kGather || op == kAllGather ? each * numbers.size() : each;
  if (all > kMostChunks) {
    values.refuse("values", fmt::format("fewer numbers: the whole array has {}, and at most {} are "
                                        "shown",
                                        all, kMostChunks));
  }
  const bool in_parts = op == kScatter || op == kReduceScatter || op == kAllToAll;
  if (in_parts && each % static_cast<size_t>(ranks) != 0) {
    values.refuse("values", fmt::format("a multiple of {} numbers for each rank, as {} cuts them "
                                        "into one part for each",
                                        ranks, name_of(op)));
  }
  return numbers;
}

int node_size_of(const ShowValues& values, Algorithm algorithm, int ranks) {
  if (algorithm != Algorithm::kHierarchical) return 0;
  const int size =
      values.has("node_size") ? values.number("node_size") : (ranks % 2 == 0 ? ranks / 2 : ranks);
  if (ranks % size != 0) {
    values.refuse("node_size", fmt::format("a divisor of the {} ranks", ranks));
  }
  return size;
}

bool adds(const PlayedStep& step) {
  return std::any_of(step.moves.begin(), step.moves.end(),
                     [](const PlayedMove& move) { return move.reduce; });
}

// An all_reduce is made of two others, by blocks or by whole arrays. `step` is one in which nobody
// is lost.
std::string_view phase_of(const PlayRequest& request, const PlayedStep& step) {
  if (request.op != kAllReduce) return name_of(request.op);
  switch (request.algorithm) {
    case Algorithm::kOneShot:
      return "exchange";
    case Algorithm::kTree:
    case Algorithm::kNaive:
      return adds(step) ? "reduce" : "broadcast";
    default:
      return adds(step) ? "reduce-scatter" : "all-gather";
  }
}

AskedCollective asked_collective(const ShowValues& values) {
  AskedCollective asked;
  PlayRequest& request = asked.request;
  const int ranks = values.number("ranks");
  request.op = op_named(values.text("op"));
  request.algorithm = algorithm_of(values, request.op);
  request.root = values.number("root");
  if (request.root >= ranks) values.refuse("root", fmt::format("a rank from 0 to {}", ranks - 1));
  request.lost = values.has("lost") ? values.number("lost") : -1;
  if (request.lost >= ranks) values.refuse("lost", fmt::format("a rank from 0 to {}", ranks - 1));
  request.lost_before_step = values.number("lost_step");
  request.ranks_per_node = node_size_of(values, request.algorithm, ranks);
  asked.digits = !values.has("values") && ranks <= kMostDecimalRanks;
  request.values = values.has("values") ? given_values(values, request.op, ranks)
                                        : default_values(request.op, ranks);
  asked.played = play(request);
  PlayRequest whole = request;
  whole.lost = -1;
  for (const PlayedStep& step : play(whole).steps) asked.phases.push_back(phase_of(request, step));
  return asked;
}

Json cell_json(const std::optional<ChunkValue>& cell) {
  if (!cell) return {{"v", nullptr}, {"from", Json::array()}};
  return {{"v", cell->value}, {"from", cell->from}};
}

Json chunks_json(const std::vector<RankChunks>& ranks) {
  Json rows = Json::array();
  for (const RankChunks& chunks : ranks) {
    Json row = Json::array();
    for (const std::optional<ChunkValue>& cell : chunks) row.push_back(cell_json(cell));
    rows.push_back(std::move(row));
  }
  return rows;
}

// "Each rank", "Rank 2", "3 ranks".
std::string senders_text(const PlayedStep& step, int ranks) {
  std::set<int> senders;
  for (const PlayedMove& move : step.moves) senders.insert(move.from);
  if (static_cast<int>(senders.size()) == ranks) return "Each rank";
  if (senders.size() == 1) return fmt::format("Rank {}", *senders.begin());
  return fmt::format("{} ranks", senders.size());
}

bool sends_to_several(const PlayedStep& step) {
  const PlayedMove& first = step.moves.front();
  return std::any_of(step.moves.begin(), step.moves.end(), [&](const PlayedMove& move) {
    return move.from == first.from && move.to != first.to;
  });
}

std::string moved_text(const PlayedStep& step, size_t number, int ranks) {
  const PlayedMove& first = step.moves.front();
  const std::string who = senders_text(step, ranks);
  const bool several = who.ends_with("ranks");
  const bool sums = first.value.from.size() > 1;
  const bool whole = static_cast<int>(first.value.from.size()) == ranks;
  const bool to_all = sends_to_several(step);
  if (first.reduce && sums) {
    return fmt::format("{} pass{} on the sum that {} made in step {}; the receiver adds its own.",
                       who, several ? "" : "es", several ? "they" : "it", number);
  }
  if (first.reduce) {
    return fmt::format("{} send{} what is {} own{}; whoever gets it adds it to the rest.", who,
                       several ? "" : "s", several ? "their" : "its",
                       to_all ? ", to each rank the chunk that is due there" : "");
  }
  if (whole && ranks > 1) {
    return fmt::format("{} send{} finished sums on; nothing is added any more.", who,
                       several ? "" : "s");
  }
  const bool own = std::all_of(step.moves.begin(), step.moves.end(), [](const PlayedMove& move) {
    return move.value.from == std::vector{move.from};
  });
  return fmt::format("{} send{} {}.", who, several ? "" : "s",
                     own       ? fmt::format("chunks of {} own", several ? "their" : "its")
                     : several ? "on what they have got"
                               : "on what it has got");
}

std::string wait_text(const PlayedWait& wait) {
  return wait.sends ? fmt::format("rank {} cannot give rank {} what it has", wait.rank, wait.peer)
                    : fmt::format("rank {} waits for rank {}", wait.rank, wait.peer);
}

std::string step_text(const PlayedStep& step, size_t number, int ranks) {
  std::string text = step.moves.empty() ? "Nothing moves." : moved_text(step, number, ranks);
  for (const PlayedWait& wait : step.waits) {
    std::string one = wait_text(wait);
    one.front() = 'R';
    text += fmt::format(" {}.", one);
  }
  return text;
}

Json steps_json(const AskedCollective& asked) {
  Json steps = Json::array();
  for (size_t i = 0; i < asked.played.steps.size(); ++i) {
    const PlayedStep& step = asked.played.steps[i];
    Json moves = Json::array();
    for (const PlayedMove& move : step.moves) {
      moves.push_back({{"from", move.from},
                       {"to", move.to},
                       {"chunk", move.chunk},
                       {"at", move.at},
                       {"reduce", move.reduce},
                       {"value", move.value.value},
                       {"of", move.value.from}});
    }
    steps.push_back({{"phase", asked.phases[i]},
                     {"text", step_text(step, i, asked.ranks())},
                     {"moves", std::move(moves)},
                     {"state", chunks_json(step.state)}});
  }
  return steps;
}

std::vector<int64_t> sent_chunks(const AskedCollective& asked) {
  std::vector<int64_t> sent(asked.request.values.size(), 0);
  for (const PlayedStep& step : asked.played.steps) {
    for (const PlayedMove& move : step.moves) ++sent[static_cast<size_t>(move.from)];
  }
  return sent;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A formula with numbers in the place of letters that stand alone.
std::string with_values(std::string_view formula, const std::map<char, int64_t>& letters) {
  std::string text;
  for (size_t i = 0; i < formula.size(); ++i) {
    const bool in_word = (i > 0 && is_letter(formula[i - 1])) ||
                         (i + 1 < formula.size() && is_letter(formula[i + 1]));
    const auto found = letters.find(formula[i]);
    if (in_word || found == letters.end()) {
      text += formula[i];
      continue;
    }
    // "2 (n-1)/n B" multiplies without saying so.
    if (formula[i] == 'B' && i > 0 && formula[i - 1] == ' ' && i > 1 && formula[i - 2] != '+') {
      text += "* ";
    }
    text += fmt::format("{}", found->second);
  }
  return text;
}

// What the rank that sends most sends, in chunks.
Json sent_formula(const AskedCollective& asked) {
  const PlayRequest& request = asked.request;
  const int ranks = asked.ranks();
  const bool in_parts =
      request.op == kScatter || request.op == kReduceScatter || request.op == kAllToAll;
  const auto each = static_cast<int64_t>(request.values[0].size());
  const int64_t count = in_parts ? each / ranks : each;
  constexpr int64_t kChunkBytes = 64;
  const CostShape shape{.ranks = ranks,
                        .count = count,
                        .element_bytes = kChunkBytes,
                        .ranks_per_node = request.ranks_per_node};
  const std::span<const CostForm> forms = cost_forms();
  const auto form = std::find_if(forms.begin(), forms.end(), [&](const CostForm& one) {
    return one.op == request.op && one.algorithm == request.algorithm;
  });
  const int64_t per_node = request.ranks_per_node > 0 ? request.ranks_per_node : ranks;
  const std::map<char, int64_t> letters = {{'n', ranks},
                                           {'B', count},
                                           {'L', log2_rounds(ranks)},
                                           {'g', per_node},
                                           {'m', ranks / per_node}};
  return {{"formula", form->bytes_text},
          {"numbers", with_values(form->bytes_text, letters)},
          {"value", form->cost(shape).bytes_sent / kChunkBytes},
          {"unit", "chunks"}};
}

Json hang_json(const AskedCollective& asked) {
  Json waits = Json::array();
  std::vector<std::string> texts;
  size_t first = 0;
  for (size_t i = 0; i < asked.played.steps.size(); ++i) {
    for (const PlayedWait& wait : asked.played.steps[i].waits) {
      if (first == 0) first = i + 1;
      waits.push_back({{"rank", wait.rank}, {"for", wait.peer}, {"step", i + 1}});
      texts.push_back(wait_text(wait));
    }
  }
  if (first == 0) return nullptr;
  return {{"step", first},
          {"waits", std::move(waits)},
          {"text", fmt::format("Rank {} is gone: {}. Nobody raises an error; without a time limit "
                               "they wait for ever.",
                               asked.request.lost, fmt::join(texts, ", "))}};
}

Json collective_answer(const ShowValues& values, const Surroundings&) {
  const AskedCollective asked = asked_collective(values);
  const std::vector<RankChunks> expected = promised_result(asked.request);
  Json algorithms = Json::array();
  for (const Algorithm one : supported_algorithms(asked.request.op)) {
    algorithms.push_back(name_of(one));
  }
  Json json = {{"op", name_of(asked.request.op)},
               {"algorithm", name_of(asked.request.algorithm)},
               {"ranks", asked.ranks()},
               {"chunks", asked.played.chunks},
               {"algorithms", std::move(algorithms)},
               {"digits", asked.digits},
               {"before", chunks_json(asked.played.before)},
               {"steps", steps_json(asked)},
               {"after", chunks_json(asked.played.after)},
               {"expected", chunks_json(expected)},
               {"equal", asked.played.after == expected},
               {"sent_chunks", sent_chunks(asked)},
               {"sent_formula", sent_formula(asked)},
               {"messages", asked.played.messages}};
  if (has_root(asked.request.op)) json["root"] = asked.request.root;
  if (asked.request.ranks_per_node > 0) json["node_size"] = asked.request.ranks_per_node;
  Json hang = hang_json(asked);
  if (!hang.is_null()) json["hang"] = std::move(hang);
  return json;
}

std::string rows_text(const std::vector<RankChunks>& ranks) {
  std::vector<TextTable::Column> columns = {{"rank", Align::kRight}};
  for (size_t c = 0; c < ranks[0].size(); ++c) {
    columns.push_back({fmt::format("chunk {}", c), Align::kRight});
  }
  TextTable table(columns);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::string> cells = {fmt::format("{}", rank)};
    for (const std::optional<ChunkValue>& cell : ranks[rank]) {
      cells.push_back(cell ? fmt::format("{:g}", cell->value) : ".");
    }
    table.add_row(std::move(cells));
  }
  return table.str();
}

std::string moves_text(const PlayedStep& step) {
  std::string text;
  for (const PlayedMove& move : step.moves) {
    text += fmt::format("  {} -> {}: chunk {} = {:g}{}\n", move.from, move.to, move.chunk,
                        move.value.value, move.reduce ? ", to be added" : "");
  }
  return text;
}

std::string collective_text(const ShowValues& values, const Surroundings&) {
  const AskedCollective asked = asked_collective(values);
  std::string text = fmt::format("{} of {}, {}\n\n", name_of(asked.request.op),
                                 count_of(asked.ranks(), "rank"), name_of(asked.request.algorithm));
  text += "before\n" + rows_text(asked.played.before);
  for (size_t i = 0; i < asked.played.steps.size(); ++i) {
    const PlayedStep& step = asked.played.steps[i];
    text += fmt::format("\nstep {}, {}: {}\n", i + 1, asked.phases[i],
                        step_text(step, i, asked.ranks()));
    text += moves_text(step) + rows_text(step.state);
  }
  const Json formula = sent_formula(asked);
  text += fmt::format("\n{} in {}; chunks sent by rank: {}\n",
                      count_of(asked.played.messages, "message"),
                      count_of(static_cast<int64_t>(asked.played.steps.size()), "step"),
                      fmt::join(sent_chunks(asked), ", "));
  text += fmt::format("formula, of the rank that sends most: {} = {} = {}\n",
                      formula["formula"].get<std::string>(), formula["numbers"].get<std::string>(),
                      with_noun(formula["value"].dump(), "chunk"));
  const Json hang = hang_json(asked);
  text +=
      hang.is_null() ? "the result is what it should be\n" : hang["text"].get<std::string>() + "\n";
  return text;
}

}  // namespace

ShowTopic collective_topic() {
  return {"collective",
          "A collective step by step, with values on their way.",
          "--op all_reduce --ranks 4 --algorithm ring",
          kCollectiveFields,
          collective_answer,
          for_terminals(collective_text)};
}

}  // namespace tessera
