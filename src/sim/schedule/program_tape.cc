#include "sim/schedule/program_tape.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/index.h"
#include "compile/lower/instances.h"

namespace tessera {
namespace {

using Kind = PipelineItem::Kind;

// The output that crosses each boundary, then, from the last boundary, the gradient that comes
// back: the order in which a graph makes them.
std::vector<StageCrossing> crossings_of(const std::vector<StageCut>& cuts) {
  const int stages = static_cast<int>(cuts.size());
  std::vector<StageCrossing> crossings;
  for (int stage = 0; stage + 1 < stages; ++stage) {
    crossings.push_back({kNoValue, stage, stage + 1, 0, 0});
  }
  for (int stage = stages - 1; stage > 0; --stage) {
    const int from_part = cuts[index(stage)] == StageCut::kWhole ? 0 : 1;
    crossings.push_back({kNoValue, stage, stage - 1, from_part, 1});
  }
  return crossings;
}

}  // namespace

// Orders the items of all ranks, then walks the two streams of each rank as far as they go.
class ProgramTapeBuilder {
 public:
  ProgramTapeBuilder(const PipelineSchedule& schedule, ProgramTape& tape)
      : schedule_(schedule), tape_(tape), cuts_(stage_cuts(schedule)) {}

  void build() {
    crossings_ = crossings_of(cuts_);
    items_ = order_items(schedule_, cuts_, crossings_);
    const size_t micro_batches = index(schedule_.micro_batches);
    part_step_.assign(index(schedule_.stages) * ProgramTape::kParts * micro_batches, 0);
    message_step_.assign(crossings_.size() * micro_batches, 0);
    into_.resize(index(schedule_.stages) * ProgramTape::kParts);
    for (size_t c = 0; c < crossings_.size(); ++c) {
      into_[part_index(crossings_[c].to_stage, crossings_[c].to_part)].push_back(
          static_cast<int>(c));
    }
    streams_.resize(items_.size());
    for (size_t rank = 0; rank < items_.size(); ++rank) {
      for (size_t i = 0; i < items_[rank].size(); ++i) {
        const bool part = items_[rank][i].kind == Kind::kPart;
        (part ? streams_[rank].parts : streams_[rank].messages).push_back(i);
      }
      find_reuse(rank);
    }
    walk();
    tape_.ranks_ = schedule_.ranks;
    tape_.stages_ = schedule_.stages;
    tape_.rank_of_stage_ = schedule_.rank_of_stage;
    tape_.cuts_ = cuts_;
  }

 private:
  struct Streams {
    std::vector<size_t> parts, messages;  // places in the rank's items
    size_t next_part = 0, next_message = 0;
    // By item: the item before whose end the memory that it writes is in use; -1: none.
    std::vector<int> in_use_until;
  };

  [[nodiscard]] size_t rank_of(int stage) const {
    return index(schedule_.rank_of_stage[index(stage)]);
  }
  [[nodiscard]] static size_t part_index(int stage, int part) {
    return index(stage) * ProgramTape::kParts + index(part);
  }
  uint32_t& part_step(int stage, int part, int micro_batch) {
    return part_step_[part_index(stage, part) * index(schedule_.micro_batches) +
                      index(micro_batch)];
  }
  uint32_t& message_step(int crossing, int micro_batch) {
    return message_step_[index(crossing) * index(schedule_.micro_batches) + index(micro_batch)];
  }
  uint32_t step_of(const PipelineItem& item) {
    return item.kind == Kind::kPart ? part_step(item.stage, item.part, item.micro_batch)
                                    : message_step(item.crossing, item.micro_batch);
  }

  [[nodiscard]] bool uses(const PipelineItem& item, int crossing, bool sender) const;
  void find_reuse(size_t rank);
  void walk();
  bool try_part(size_t rank);
  bool try_message(size_t rank);
  bool memory_is_free(size_t rank, size_t item, uint32_t& wait);
  uint32_t add(ProgramTape::Step step) {
    tape_.steps_.push_back(step);
    return static_cast<uint32_t>(tape_.steps_.size());
  }

  const PipelineSchedule& schedule_;
  ProgramTape& tape_;
  std::vector<StageCut> cuts_;
  std::vector<StageCrossing> crossings_;
  std::vector<std::vector<PipelineItem>> items_;
  std::vector<std::vector<int>> into_;  // by stage and part: crossings that it needs
  std::vector<Streams> streams_;
  std::vector<uint32_t> part_step_, message_step_;  // 0: not yet
};

// Whether an item of one side of a crossing touches the value. A sender makes it and sends it; a
// receiver also needs an output again in backward, and a gradient for weight gradients.
bool ProgramTapeBuilder::uses(const PipelineItem& item, int crossing, bool sender) const {
  const StageCrossing& x = crossings_[index(crossing)];
  if (item.kind != Kind::kPart) return item.crossing == crossing;
  if (sender) return item.stage == x.from_stage && item.part == x.from_part;
  return item.stage == x.to_stage && item.part >= x.to_part;
}

// Values that are handed on lie in as many places as there are of them at one time, as the compiler
// numbers them; whoever comes to a place waits for the one before.
void ProgramTapeBuilder::find_reuse(size_t rank) {
  const std::vector<PipelineItem>& items = items_[rank];
  std::vector<int>& until = streams_[rank].in_use_until;
  until.assign(items.size(), -1);
  for (int c = 0; c < static_cast<int>(crossings_.size()); ++c) {
    const StageCrossing& x = crossings_[index(c)];
    if (rank_of(x.from_stage) == rank_of(x.to_stage)) continue;
    const bool sender = rank_of(x.from_stage) == rank;
    if (!sender && rank_of(x.to_stage) != rank) continue;
    std::vector<ItemSpan> spans(index(schedule_.micro_batches));
    std::vector<int> last_use(index(schedule_.micro_batches), -1);
    for (size_t i = 0; i < items.size(); ++i) {
      if (!uses(items[i], c, sender)) continue;
      ItemSpan& span = spans[index(items[i].micro_batch)];
      span.micro_batch = items[i].micro_batch;
      span.include(static_cast<int>(i));
      last_use[index(span.micro_batch)] = static_cast<int>(i);
      if (items[i].kind == Kind::kSend) span.include(part_after(items, i));
    }
    std::map<int, int> holder;  // of a place: the micro-batch that had it last
    std::vector<int> first(index(schedule_.micro_batches));
    for (const ItemSpan& span : spans) first[index(span.micro_batch)] = span.first;
    for (const auto& [micro_batch, place] : number_spans(spans)) {
      const auto [found, fresh] = holder.try_emplace(place, micro_batch);
      if (!fresh) until[index(first[index(micro_batch)])] = last_use[index(found->second)];
      found->second = micro_batch;
    }
  }
}

void ProgramTapeBuilder::walk() {
  size_t left = 0;
  for (const Streams& stream : streams_) left += stream.parts.size() + stream.messages.size();
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t rank = 0; rank < streams_.size(); ++rank) {
      while (try_part(rank)) moved = true;
      while (try_message(rank)) moved = true;
    }
  }
  for (const Streams& stream : streams_) left -= stream.next_part + stream.next_message;
  TESSERA_CHECK(left == 0, "schedule {} is stuck", schedule_.name);
}

bool ProgramTapeBuilder::memory_is_free(size_t rank, size_t item, uint32_t& wait) {
  const int until = streams_[rank].in_use_until[item];
  if (until < 0) return true;
  wait = step_of(items_[rank][index(until)]);
  return wait > 0;
}

bool ProgramTapeBuilder::try_part(size_t rank) {
  Streams& stream = streams_[rank];
  if (stream.next_part == stream.parts.size()) return false;
  const size_t at = stream.parts[stream.next_part];
  const PipelineItem& item = items_[rank][at];
  ProgramTape::Step step;
  step.rank = step.receiver = static_cast<uint32_t>(rank);
  step.cost = static_cast<uint32_t>(part_index(item.stage, item.part));
  if (!memory_is_free(rank, at, step.waits[1])) return false;
  for (const int c : into_[part_index(item.stage, item.part)]) {
    const StageCrossing& x = crossings_[index(c)];
    if (rank_of(x.from_stage) == rank) continue;  // comes earlier in the same stream
    step.waits[0] = message_step(c, item.micro_batch);
    if (step.waits[0] == 0) return false;
  }
  part_step(item.stage, item.part, item.micro_batch) = add(step);
  ++stream.next_part;
  return true;
}

// By its sender, where both come to it next.
bool ProgramTapeBuilder::try_message(size_t rank) {
  Streams& stream = streams_[rank];
  if (stream.next_message == stream.messages.size()) return false;
  const PipelineItem& item = items_[rank][stream.messages[stream.next_message]];
  if (item.kind != Kind::kSend) return false;
  const StageCrossing& x = crossings_[index(item.crossing)];
  Streams& other = streams_[rank_of(x.to_stage)];
  if (other.next_message == other.messages.size()) return false;
  const size_t there = other.messages[other.next_message];
  const PipelineItem& received = items_[rank_of(x.to_stage)][there];
  if (received.kind != Kind::kReceive || received.crossing != item.crossing ||
      received.micro_batch != item.micro_batch) {
    return false;
  }
  ProgramTape::Step step;
  step.is_message = true;
  step.is_gradient = x.from_stage > x.to_stage;
  step.rank = static_cast<uint32_t>(rank);
  step.receiver = static_cast<uint32_t>(rank_of(x.to_stage));
  step.cost = static_cast<uint32_t>(std::min(x.from_stage, x.to_stage));
  step.waits[0] = part_step(x.from_stage, x.from_part, item.micro_batch);
  if (step.waits[0] == 0) return false;
  if (!memory_is_free(rank_of(x.to_stage), there, step.waits[1])) return false;
  message_step(item.crossing, item.micro_batch) = add(step);
  ++stream.next_message;
  ++other.next_message;
  return true;
}

ProgramTape::ProgramTape(const PipelineSchedule& schedule) {
  ProgramTapeBuilder(schedule, *this).build();
}

PipelineOutcome ProgramTape::run(const PipelineTimes& times) const {
  TESSERA_CHECK(times.stages.size() == index(stages_), "{} stages have times of {}", stages_,
                times.stages.size());
  TESSERA_CHECK(times.messages.empty() || times.messages.size() + 1 == times.stages.size(),
                "{} boundaries have times of {}", stages_ - 1, times.messages.size());
  std::vector<double> cost(times.stages.size() * kParts, 0), early(cost), after_gradient(cost);
  for (size_t stage = 0; stage < times.stages.size(); ++stage) {
    const StageTimes& of = times.stages[stage];
    double* const parts = &cost[stage * kParts];
    early[stage * kParts] = of.early_forward;
    if (cuts_[stage] != StageCut::kWhole) early[stage * kParts + 1] = of.early_input_grad;
    switch (cuts_[stage]) {
      case StageCut::kWhole:
        parts[0] = of.forward + of.input_grad + of.weight_grad;
        break;
      case StageCut::kTwo:
        parts[0] = of.forward;
        parts[1] = of.input_grad + of.weight_grad;
        after_gradient[stage * kParts + 1] = of.after_gradient;
        break;
      case StageCut::kThree:
        parts[0] = of.forward;
        parts[1] = of.input_grad;
        parts[2] = of.weight_grad;
        break;
    }
  }
  const size_t ranks = index(ranks_);
  std::vector<double> ends(steps_.size() + 1, 0), actions(ranks, 0), messages(ranks, 0);
  std::vector<double> begin(ranks, -1), work(ranks, 0);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    double free = ends[step.waits[1]];  // the memory that is written
    if (step.is_gradient && step.waits[1] > 0) {
      const Step& before = steps_[step.waits[1] - 1];
      if (!before.is_message) free -= after_gradient[before.cost];
    }
    double start = std::max(ends[step.waits[0]], free);
    if (step.is_message) {
      start = std::max({start, messages[step.rank], messages[step.receiver]});
      const MessageTimes message =
          times.messages.empty() ? MessageTimes{} : times.messages[step.cost];
      ends[i + 1] = start + message.latency + message.transfer;
      messages[step.rank] = messages[step.receiver] = ends[i + 1];
      continue;
    }
    start = std::max(start - early[step.cost], actions[step.rank]);
    if (begin[step.rank] < 0) begin[step.rank] = start;
    ends[i + 1] = start + cost[step.cost];
    actions[step.rank] = ends[i + 1];
    work[step.rank] += cost[step.cost];
  }
  PipelineOutcome result;
  for (size_t rank = 0; rank < ranks; ++rank) {
    result.makespan = std::max(result.makespan, actions[rank]);
    result.longest_span = std::max(result.longest_span, actions[rank] - begin[rank]);
    result.busiest = std::max(result.busiest, work[rank]);
    result.work += work[rank];
  }
  const double all = result.makespan * static_cast<double>(ranks);
  if (all > 0) result.bubble = std::max(0.0, 1 - result.work / all);
  if (result.longest_span > 0) {
    result.span_bubble = std::max(0.0, 1 - result.busiest / result.longest_span);
  }
  return result;
}

}  // namespace tessera
