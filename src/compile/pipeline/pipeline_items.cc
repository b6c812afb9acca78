#include "compile/pipeline/pipeline_items.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

using Kind = PipelineItem::Kind;

constexpr size_t kMostParts = 3;

class ItemOrder {
 public:
  ItemOrder(const PipelineSchedule& schedule, const std::vector<StageCut>& cuts,
            const std::vector<StageCrossing>& crossings)
      : schedule_(schedule), cuts_(cuts), crossings_(crossings) {}

  std::vector<std::vector<PipelineItem>> run() {
    list_parts();
    simulate();
    return place_messages();
  }

 private:
  struct Timed {
    PipelineItem item;
    int length = 0;
    int start = -1;
    [[nodiscard]] int end() const { return start + length; }
  };
  struct Place {
    int rank = -1;
    int index = -1;
  };
  struct Message {
    int time = 0, sent = 0, crossing = 0, micro_batch = 0;
  };

  [[nodiscard]] size_t rank_of(int stage) const {
    return static_cast<size_t>(schedule_.rank_of_stage[static_cast<size_t>(stage)]);
  }
  [[nodiscard]] static size_t part_index(int stage, int part) {
    return static_cast<size_t>(stage) * kMostParts + static_cast<size_t>(part);
  }
  [[nodiscard]] Place& place(int stage, int part, int micro_batch) {
    return place_[part_index(stage, part) * static_cast<size_t>(schedule_.micro_batches) +
                  static_cast<size_t>(micro_batch)];
  }
  [[nodiscard]] const Timed& timed(const Place& at) const {
    return timed_[static_cast<size_t>(at.rank)][static_cast<size_t>(at.index)];
  }

  void list_parts();
  void simulate();
  bool try_start(size_t rank);
  [[nodiscard]] std::vector<Message> list_messages();
  static void sort_by(std::vector<Message>& messages, int Message::*key);
  std::vector<std::vector<PipelineItem>> place_messages();

  const PipelineSchedule& schedule_;
  const std::vector<StageCut>& cuts_;
  const std::vector<StageCrossing>& crossings_;
  std::vector<std::vector<int>> into_;  // by stage and part: crossings that it needs
  std::vector<std::vector<Timed>> timed_;
  std::vector<Place> place_;  // by stage, part and micro-batch
  std::vector<size_t> next_;  // by rank: the first part that has not started
};

// The actions of the schedule as parts, with unit costs.
void ItemOrder::list_parts() {
  const size_t parts = static_cast<size_t>(schedule_.stages) * kMostParts;
  place_.assign(parts * static_cast<size_t>(schedule_.micro_batches), {});
  into_.resize(parts);
  for (size_t c = 0; c < crossings_.size(); ++c) {
    into_[part_index(crossings_[c].to_stage, crossings_[c].to_part)].push_back(static_cast<int>(c));
  }
  timed_.resize(static_cast<size_t>(schedule_.ranks));
  for (size_t rank = 0; rank < timed_.size(); ++rank) {
    timed_[rank].reserve(schedule_.actions[rank].size());
    for (const StageAction& action : schedule_.actions[rank]) {
      const StageCut cut = cuts_[static_cast<size_t>(action.stage)];
      const bool forward = action.pass == StagePass::kForward;
      if (cut == StageCut::kWhole && !forward) {
        timed_[rank].back().length = 3;
        continue;
      }
      // A whole backward where others of the stage are cut in three.
      const bool both = cut == StageCut::kThree && action.pass == StagePass::kBackward;
      const int part = forward ? 0 : (action.pass == StagePass::kWeightGrad ? 2 : 1);
      const int length = action.pass == StagePass::kBackward && !both ? 2 : 1;
      for (int p = part; p <= part + (both ? 1 : 0); ++p) {
        place(action.stage, p, action.micro_batch) = {static_cast<int>(rank),
                                                      static_cast<int>(timed_[rank].size())};
        Timed next;
        next.item = {Kind::kPart, action.stage, p, 0, action.micro_batch};
        next.length = length;
        timed_[rank].push_back(next);
      }
    }
  }
}

// Once all values that it gets from other stages exist.
bool ItemOrder::try_start(size_t rank) {
  size_t& next = next_[rank];
  if (next == timed_[rank].size()) return false;
  Timed& mine = timed_[rank][next];
  int ready = next == 0 ? 0 : timed_[rank][next - 1].end();
  for (const int c : into_[part_index(mine.item.stage, mine.item.part)]) {
    const StageCrossing& crossing = crossings_[static_cast<size_t>(c)];
    const Timed& source =
        timed(place(crossing.from_stage, crossing.from_part, mine.item.micro_batch));
    if (source.start < 0) return false;
    ready = std::max(ready, source.end());
  }
  mine.start = ready;
  ++next;
  return true;
}

void ItemOrder::simulate() {
  next_.assign(timed_.size(), 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t rank = 0; rank < timed_.size(); ++rank) {
      while (try_start(rank)) moved = true;
    }
  }
  for (size_t rank = 0; rank < timed_.size(); ++rank) {
    TESSERA_CHECK(next_[rank] == timed_[rank].size(),
                  "schedule {}: rank {} of the pipeline never gets to action {}", schedule_.name,
                  rank, next_[rank]);
  }
}

std::vector<ItemOrder::Message> ItemOrder::list_messages() {
  std::vector<Message> messages;
  for (size_t c = 0; c < crossings_.size(); ++c) {
    const StageCrossing& crossing = crossings_[c];
    if (rank_of(crossing.from_stage) == rank_of(crossing.to_stage)) continue;
    for (int m = 0; m < schedule_.micro_batches; ++m) {
      const Place to = place(crossing.to_stage, crossing.to_part, m);
      // The receiver has room from the action before the one that needs the value.
      const int room = to.index == 0 ? 0 : timed({to.rank, to.index - 1}).start;
      const int sent = timed(place(crossing.from_stage, crossing.from_part, m)).end();
      messages.push_back({std::max(sent, room), sent, static_cast<int>(c), m});
    }
  }
  // By time, then by when they were sent; equal ones stay in order of crossing and micro-batch.
  sort_by(messages, &Message::sent);
  sort_by(messages, &Message::time);
  return messages;
}

// Stable, in time that grows with messages and steps of the simulated clock alone.
void ItemOrder::sort_by(std::vector<Message>& messages, int Message::*key) {
  int most = 0;
  for (const Message& message : messages) most = std::max(most, message.*key);
  std::vector<size_t> next(static_cast<size_t>(most) + 2, 0);
  for (const Message& message : messages) ++next[static_cast<size_t>(message.*key) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<Message> sorted(messages.size());
  for (const Message& message : messages) {
    sorted[next[static_cast<size_t>(message.*key)]++] = message;
  }
  messages = std::move(sorted);
}

std::vector<std::vector<PipelineItem>> ItemOrder::place_messages() {
  std::vector<std::vector<PipelineItem>> items(timed_.size());
  next_.assign(timed_.size(), 0);
  const auto add = [&](size_t rank, Kind kind, const Message& message) {
    size_t& next = next_[rank];
    while (next < timed_[rank].size() && timed_[rank][next].start < message.time) {
      items[rank].push_back(timed_[rank][next++].item);
    }
    items[rank].push_back({kind, 0, 0, message.crossing, message.micro_batch});
  };
  const std::vector<Message> messages = list_messages();
  std::vector<size_t> more(timed_.size(), 0);
  for (const Message& message : messages) {
    const StageCrossing& crossing = crossings_[static_cast<size_t>(message.crossing)];
    ++more[rank_of(crossing.from_stage)];
    ++more[rank_of(crossing.to_stage)];
  }
  for (size_t rank = 0; rank < timed_.size(); ++rank) {
    items[rank].reserve(timed_[rank].size() + more[rank]);
  }
  for (const Message& message : messages) {
    const StageCrossing& crossing = crossings_[static_cast<size_t>(message.crossing)];
    add(rank_of(crossing.from_stage), Kind::kSend, message);
    add(rank_of(crossing.to_stage), Kind::kReceive, message);
  }
  for (size_t rank = 0; rank < timed_.size(); ++rank) {
    while (next_[rank] < timed_[rank].size())
      items[rank].push_back(timed_[rank][next_[rank]++].item);
  }
  return items;
}

}  // namespace

std::vector<StageCut> stage_cuts(const PipelineSchedule& schedule) {
  std::vector<StageCut> cuts(static_cast<size_t>(schedule.stages), StageCut::kTwo);
  const int last = schedule.stages - 1;
  bool whole = true;
  for (const std::vector<StageAction>& actions : schedule.actions) {
    for (size_t i = 0; i < actions.size(); ++i) {
      const StageAction& action = actions[i];
      if (action.pass == StagePass::kInputGrad) {
        cuts[static_cast<size_t>(action.stage)] = StageCut::kThree;
      }
      if (action.stage != last || action.pass != StagePass::kForward) continue;
      whole = whole && i + 1 < actions.size() &&
              actions[i + 1] == StageAction{StagePass::kBackward, last, action.micro_batch};
    }
  }
  StageCut& cut = cuts[static_cast<size_t>(last)];
  if (whole && cut == StageCut::kTwo) cut = StageCut::kWhole;
  return cuts;
}

std::vector<std::vector<PipelineItem>> order_items(const PipelineSchedule& schedule,
                                                   const std::vector<StageCut>& cuts,
                                                   const std::vector<StageCrossing>& crossings) {
  return ItemOrder(schedule, cuts, crossings).run();
}

}  // namespace tessera
