#include "collective/play.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "collective/all_ranks.h"

namespace tessera {
namespace {

using enum CollectiveOp;

// The slices of an all_reduce are whole granules: with elements as large, every one is its own.
constexpr int64_t kChunkBytes = 64;

struct Element {
  ChunkValue what;
  int chunk = 0;   // where it belongs in the array of whoever gets it
  int source = 0;  // where it was in its sender's
};
using Buffer = std::vector<std::optional<Element>>;

// Which chunks the arrays of a rank are.
class ChunkMap {
 public:
  explicit ChunkMap(const PlayRequest& request)
      : op_(request.op),
        ranks_(static_cast<int>(request.values.size())),
        contributed_(contribution(request)) {}

  // Elements of each rank's `in`, and of the schedule's count.
  [[nodiscard]] int contributed() const { return contributed_; }
  [[nodiscard]] int count() const {
    const bool in_parts = op_ == kScatter || op_ == kReduceScatter || op_ == kAllToAll;
    return in_parts ? contributed_ / ranks_ : contributed_;
  }
  [[nodiscard]] int chunks() const {
    return op_ == kGather || op_ == kAllGather ? contributed_ * ranks_ : contributed_;
  }
  // On `rank`: of element i of what it contributes, and of element i of its result.
  [[nodiscard]] int of_in(int rank, int i) const {
    return op_ == kGather || op_ == kAllGather ? rank * contributed_ + i : i;
  }
  [[nodiscard]] int of_out(int rank, int i) const {
    return op_ == kScatter || op_ == kReduceScatter ? rank * count() + i : i;
  }
  // Where element i of `rank` belongs.
  [[nodiscard]] int target_of(int rank, int i) const {
    return op_ == kAllToAll ? rank * count() + i % count() : of_in(rank, i);
  }
  [[nodiscard]] int results() const {
    const bool one_part = op_ == kScatter || op_ == kReduceScatter;
    return one_part ? count() : chunks();
  }

 private:
  static int contribution(const PlayRequest& request) {
    size_t most = 0;
    for (const std::vector<double>& row : request.values) most = std::max(most, row.size());
    return static_cast<int>(most);
  }
  CollectiveOp op_;
  int ranks_;
  int contributed_;
};

bool contributes(const PlayRequest& request, int rank) {
  const bool from_root = request.op == kBroadcast || request.op == kScatter;
  return !from_root || rank == request.root;
}

bool gets_result(const PlayRequest& request, int rank) {
  const bool to_root = request.op == kGather || request.op == kReduce;
  return !to_root || rank == request.root;
}

bool knows_as_much(const ChunkValue& a, const std::optional<ChunkValue>& b) {
  return !b || std::includes(a.from.begin(), a.from.end(), b->from.begin(), b->from.end());
}

class Play {
 public:
  explicit Play(const PlayRequest& request)
      : request_(request), ranks_(request.values.size()), map_(request) {
    std::vector<int> nodes;
    const int per_node = request.ranks_per_node;
    for (int rank = 0; per_node > 0 && rank < static_cast<int>(ranks_); ++rank) {
      nodes.push_back(rank / per_node);
    }
    schedules_ = make_schedules({.op = request.op,
                                 .algorithm = request.algorithm,
                                 .ranks = static_cast<int>(ranks_),
                                 .root = request.root,
                                 .count = map_.count(),
                                 .element_bytes = kChunkBytes,
                                 .nodes = nodes});
    for (const CollectiveSchedule& schedule : schedules_) {
      const size_t all = static_cast<size_t>(map_.chunks());
      in_.emplace_back(all);
      out_.emplace_back(all);
      scratch_.emplace_back(static_cast<size_t>(schedule.scratch_count));
      for (const CollectiveStep& step : schedule.steps) rounds_.insert(step.round);
    }
    stuck_.assign(ranks_, false);
    fill_inputs();
  }

  PlayedCollective run() {
    for (const int round : rounds_) {
      const bool begins_step = has_messages(round);
      if (begins_step && moved_since_step_) open_step();
      if (begins_step) moved_since_step_ = true;
      lose_rank_in_time();
      if (begins_step) exchange(round);
      for (size_t rank = 0; rank < ranks_; ++rank) compute(rank, round);
      if (!played_.steps.empty()) played_.steps.back().state = state_;
    }
    while (!played_.steps.empty() && is_idle(played_.steps.back())) played_.steps.pop_back();
    collect_results();
    return std::move(played_);
  }

 private:
  static bool is_idle(const PlayedStep& step) { return step.moves.empty() && step.waits.empty(); }

  void open_step() { played_.steps.push_back({{}, state_, {}}); }

  void fill_inputs() {
    played_.chunks = map_.chunks();
    played_.before.assign(ranks_, RankChunks(static_cast<size_t>(map_.chunks())));
    // A broadcast is in place: the root's result is what it has.
    std::vector<Buffer>& inputs = request_.op == kBroadcast ? out_ : in_;
    for (size_t r = 0; r < ranks_; ++r) {
      const int rank = static_cast<int>(r);
      if (!contributes(request_, rank)) continue;
      for (int i = 0; i < map_.contributed(); ++i) {
        const size_t at = static_cast<size_t>(i);
        const ChunkValue value{request_.values[r][at], {rank}};
        inputs[r][at] = Element{value, map_.target_of(rank, i), map_.of_in(rank, i)};
        played_.before[r][static_cast<size_t>(map_.of_in(rank, i))] = value;
      }
    }
    state_ = played_.before;
    if (request_.op == kAllToAll) {
      state_.assign(ranks_, RankChunks(static_cast<size_t>(map_.chunks())));
    }
    open_step();
  }

  [[nodiscard]] bool has_messages(int round) const {
    return std::any_of(schedules_.begin(), schedules_.end(), [&](const CollectiveSchedule& one) {
      return std::any_of(one.steps.begin(), one.steps.end(), [&](const CollectiveStep& step) {
        return step.round == round && step.action == StepAction::kSend;
      });
    });
  }

  void lose_rank_in_time() {
    const int now = static_cast<int>(played_.steps.size());
    if (request_.lost >= 0 && now >= request_.lost_before_step) {
      stuck_[static_cast<size_t>(request_.lost)] = true;
    }
  }

  std::optional<Element>& at(size_t rank, StepPlace place, int64_t offset) {
    const size_t index = static_cast<size_t>(place.begin + offset);
    if (place.buffer == StepBuffer::kScratch) return scratch_[rank].at(index);
    return (place.buffer == StepBuffer::kIn ? in_ : out_)[rank].at(index);
  }

  const Element& read(size_t rank, StepPlace place, int64_t offset) {
    const std::optional<Element>& found = at(rank, place, offset);
    TESSERA_CHECK(found.has_value(), "rank {} reads what nobody has written", rank);
    return *found;
  }

  void write(size_t rank, StepPlace place, int64_t offset, const Element& element) {
    at(rank, place, offset) = element;
    // What an all_to_all copies aside has not arrived anywhere.
    const bool arrives = request_.op != kAllToAll || place.buffer == StepBuffer::kOut;
    std::optional<ChunkValue>& cell = state_[rank][static_cast<size_t>(element.chunk)];
    if (arrives && knows_as_much(element.what, cell)) cell = element.what;
  }

  // A message needs both of its ranks; whoever stands at one that never comes is stuck from then
  // on, though the other messages of its round still pass.
  void exchange(int round) {
    std::vector<bool> stuck_after = stuck_;
    struct Arrival {
      size_t rank;
      StepPlace place;
      int64_t offset;
      Element element;
    };
    std::vector<Arrival> arrivals;
    for (size_t from = 0; from < ranks_; ++from) {
      std::vector<size_t> sent_to(ranks_, 0);
      for (const CollectiveStep& send : schedules_[from].steps) {
        if (send.round != round || send.action != StepAction::kSend) continue;
        const auto to = static_cast<size_t>(send.peer);
        const CollectiveStep& receive = matching_receive(to, from, round, sent_to[to]++);
        if (stuck_[from] || stuck_[to]) {
          note_wait(from, to, stuck_after);
          continue;
        }
        ++played_.messages;
        for (int64_t i = 0; i < send.count; ++i) {
          const Element element = read(from, send.from, i);
          note_move(from, to, receive, i, element);
          arrivals.push_back({to, receive.to, i, element});
        }
      }
    }
    for (const Arrival& arrival : arrivals) {
      write(arrival.rank, arrival.place, arrival.offset, arrival.element);
    }
    stuck_ = stuck_after;
  }

  const CollectiveStep& matching_receive(size_t rank, size_t from, int round, size_t number) {
    for (const CollectiveStep& step : schedules_[rank].steps) {
      const bool matches = step.round == round && step.action == StepAction::kReceive &&
                           step.peer == static_cast<int>(from);
      if (matches && number-- == 0) return step;
    }
    TESSERA_CHECK(false, "rank {} does not receive what {} sends in round {}", rank, from, round);
    return schedules_[rank].steps.front();
  }

  void note_wait(size_t from, size_t to, std::vector<bool>& stuck_after) {
    std::vector<PlayedWait>& waits = played_.steps.back().waits;
    if (!stuck_[from]) {
      waits.push_back({static_cast<int>(from), static_cast<int>(to), /*sends=*/true});
      stuck_after[from] = true;
    } else if (!stuck_[to]) {
      waits.push_back({static_cast<int>(to), static_cast<int>(from), /*sends=*/false});
      stuck_after[to] = true;
    }
  }

  void note_move(size_t from, size_t to, const CollectiveStep& receive, int64_t i,
                 const Element& element) {
    PlayedMove move{static_cast<int>(from),
                    static_cast<int>(to),
                    request_.op == kAllToAll ? element.source : element.chunk,
                    element.chunk,
                    is_added_later(to, receive, i),
                    element.what};
    played_.steps.back().moves.push_back(std::move(move));
  }

  // Whether what arrives is an operand before something else takes its place.
  bool is_added_later(size_t rank, const CollectiveStep& receive, int64_t i) const {
    const CollectiveSchedule& schedule = schedules_[rank];
    const auto covers = [&](StepPlace place, int64_t count) {
      const int64_t index = receive.to.begin + i;
      return place.buffer == receive.to.buffer && index >= place.begin &&
             index < place.begin + count;
    };
    for (const CollectiveStep& step : schedule.steps) {
      if (step.round <= receive.round) continue;
      for (int o = 0; o < step.num_operands; ++o) {
        const auto operand = static_cast<size_t>(step.first_operand + o);
        if (covers(schedule.operands[operand], step.count)) return true;
      }
      if (step.action != StepAction::kSend && covers(step.to, step.count)) return false;
    }
    return false;
  }

  void compute(size_t rank, int round) {
    if (stuck_[rank]) return;
    for (const CollectiveStep& step : schedules_[rank].steps) {
      if (step.round != round) continue;
      for (int64_t i = 0; i < step.count; ++i) {
        if (step.action == StepAction::kCopy) write(rank, step.to, i, read(rank, step.from, i));
        if (step.action == StepAction::kReduce) write(rank, step.to, i, sum_of(rank, step, i));
      }
    }
  }

  Element sum_of(size_t rank, const CollectiveStep& step, int64_t i) {
    std::optional<Element> sum;
    for (int o = 0; o < step.num_operands; ++o) {
      const auto operand = static_cast<size_t>(step.first_operand + o);
      const Element& part = read(rank, schedules_[rank].operands[operand], i);
      if (!sum) {
        sum = part;
        continue;
      }
      TESSERA_CHECK(sum->chunk == part.chunk, "chunks {} and {} are added", sum->chunk, part.chunk);
      sum->what.value += part.what.value;
      std::vector<int> both;
      std::set_union(sum->what.from.begin(), sum->what.from.end(), part.what.from.begin(),
                     part.what.from.end(), std::back_inserter(both));
      sum->what.from = std::move(both);
    }
    TESSERA_CHECK(sum.has_value(), "a sum of nothing");
    return *sum;
  }

  void collect_results() {
    played_.after.assign(ranks_, RankChunks(static_cast<size_t>(map_.chunks())));
    for (size_t r = 0; r < ranks_; ++r) {
      const int rank = static_cast<int>(r);
      if (!gets_result(request_, rank)) continue;
      for (int i = 0; i < map_.results(); ++i) {
        const std::optional<Element>& element = out_[r][static_cast<size_t>(i)];
        if (!element) continue;
        played_.after[r][static_cast<size_t>(map_.of_out(rank, i))] = element->what;
      }
    }
  }

  const PlayRequest& request_;
  size_t ranks_;
  ChunkMap map_;
  std::vector<CollectiveSchedule> schedules_;
  std::set<int> rounds_;
  std::vector<Buffer> in_, out_, scratch_;
  std::vector<RankChunks> state_;
  std::vector<bool> stuck_;  // lost, or waiting for one that is
  bool moved_since_step_ = false;
  PlayedCollective played_;
};

// The sum of element `i` of everybody.
ChunkValue sum_of_all(const PlayRequest& request, size_t i) {
  ChunkValue sum;
  for (size_t rank = 0; rank < request.values.size(); ++rank) {
    sum.value += request.values[rank][i];
    sum.from.push_back(static_cast<int>(rank));
  }
  return sum;
}

}  // namespace

PlayedCollective play(const PlayRequest& request) { return Play(request).run(); }

std::vector<RankChunks> promised_result(const PlayRequest& request) {
  const ChunkMap map(request);
  const int ranks = static_cast<int>(request.values.size());
  std::vector<RankChunks> result(request.values.size(),
                                 RankChunks(static_cast<size_t>(map.chunks())));
  for (int rank = 0; rank < ranks; ++rank) {
    if (!gets_result(request, rank)) continue;
    for (int i = 0; i < map.results(); ++i) {
      const auto chunk = static_cast<size_t>(map.of_out(rank, i));
      std::optional<ChunkValue>& cell = result[static_cast<size_t>(rank)][chunk];
      if (reduces(request.op)) {
        cell = sum_of_all(request, chunk);
        continue;
      }
      int owner = request.root;
      size_t element = chunk;
      if (request.op == kGather || request.op == kAllGather) {
        owner = static_cast<int>(chunk) / map.contributed();
        element = chunk % static_cast<size_t>(map.contributed());
      } else if (request.op == kAllToAll) {
        owner = static_cast<int>(chunk) / map.count();
        element =
            static_cast<size_t>(rank * map.count()) + chunk % static_cast<size_t>(map.count());
      }
      cell = ChunkValue{request.values[static_cast<size_t>(owner)][element], {owner}};
    }
  }
  return result;
}

}  // namespace tessera
