#include "compile/pipeline/pipeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "compile/pipeline/pipeline_items.h"

namespace tessera {
namespace {

using Kind = PipelineItem::Kind;

enum Section { kForward, kInputGrad, kWeightGrad };

// The backward of a chunk of the loss runs right after its forward.
Section section_of(const Node& node) {
  if (node.tag.chunk >= 0) return kForward;
  switch (node.tag.pass) {
    case Pass::kForward:
      return kForward;
    case Pass::kWeightGrad:
    case Pass::kReduce:
      return kWeightGrad;
    default:
      return kInputGrad;
  }
}

class Orderer {
 public:
  Orderer(const Graph& graph, const StageLayout& plan)
      : graph_(graph), plan_(plan), schedule_(plan.schedule) {}

  PipelineOrder run() {
    cuts_ = stage_cuts(schedule_);
    fill_parts();
    find_crossings();
    order_.items = order_items(schedule_, cuts_, order_.crossings);
    return std::move(order_);
  }

 private:
  [[nodiscard]] int stage_of(const Node& node) const { return plan_.stage_of(node.tag.unit); }
  [[nodiscard]] int rank_of(int stage) const {
    return schedule_.rank_of_stage[static_cast<size_t>(stage)];
  }
  [[nodiscard]] static bool in_step(const Node& node) { return node.tag.pass != Pass::kUpdate; }

  void fill_parts();
  [[nodiscard]] std::vector<Section> sections() const;
  void find_crossings();

  const Graph& graph_;
  const StageLayout& plan_;
  const PipelineSchedule& schedule_;
  std::vector<StageCut> cuts_;  // by stage
  std::vector<int> part_of_;    // by node
  PipelineOrder order_;
};

// What is gathered again for weight gradients alone waits for them.
std::vector<Section> Orderer::sections() const {
  const std::vector<Node>& nodes = graph_.nodes();
  std::vector<Section> sections(nodes.size());
  std::vector<bool> needed_early(graph_.num_values(), false);
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    sections[i] = section_of(node);
    if (sections[i] == kInputGrad && node.op == OpKind::kCast && in_step(node) &&
        !needed_early[static_cast<size_t>(node.outputs[0])]) {
      sections[i] = kWeightGrad;
    }
    if (sections[i] == kWeightGrad || !in_step(node)) continue;
    for (const ValueId v : node.inputs) needed_early[static_cast<size_t>(v)] = true;
  }
  return sections;
}

void Orderer::fill_parts() {
  order_.stages.resize(static_cast<size_t>(plan_.stages()));
  for (int s = 0; s < plan_.stages(); ++s) {
    const auto parts = static_cast<size_t>(num_parts(cuts_[static_cast<size_t>(s)]));
    order_.stages[static_cast<size_t>(s)].parts.resize(parts);
  }
  const std::vector<Node>& nodes = graph_.nodes();
  const std::vector<Section> section = sections();
  part_of_.assign(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!in_step(nodes[i])) continue;
    const auto s = static_cast<size_t>(stage_of(nodes[i]));
    if (cuts_[s] == StageCut::kTwo) part_of_[i] = section_of(nodes[i]) == kForward ? 0 : 1;
    if (cuts_[s] == StageCut::kThree) part_of_[i] = section[i];
    order_.stages[s].parts[static_cast<size_t>(part_of_[i])].push_back(i);
  }
}

void Orderer::find_crossings() {
  const std::vector<Node>& nodes = graph_.nodes();
  std::vector<size_t> producer(graph_.num_values(), 0);
  std::map<std::pair<ValueId, int>, size_t> known;  // value and stage
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const ValueId v : nodes[i].outputs) producer[static_cast<size_t>(v)] = i;
  }
  // Weights are kept by the rank, not handed on.
  const auto is_state = [](const Node& node) {
    return node.op == OpKind::kParameter || node.op == OpKind::kInput ||
           node.op == OpKind::kCache || node.op == OpKind::kViews ||
           (node.op == OpKind::kCast && node.attrs.bucket >= 0);
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!in_step(nodes[i])) continue;
    const int to = stage_of(nodes[i]);
    for (const ValueId v : nodes[i].inputs) {
      const size_t from_node = producer[static_cast<size_t>(v)];
      const int from = stage_of(nodes[from_node]);
      if (from == to) continue;
      const bool added_to = nodes[i].tag.pass == Pass::kWeightGrad && nodes[i].accumulate &&
                            v == nodes[i].inputs.back();
      if (is_state(nodes[from_node]) || added_to) {
        TESSERA_CHECK(rank_of(from) == rank_of(to),
                      "'{}' of stage {} is used by stage {} on another rank", graph_.value(v).name,
                      from, to);
        continue;
      }
      const auto [found, fresh] = known.try_emplace({v, to}, order_.crossings.size());
      if (fresh) {
        order_.crossings.push_back({v, from, to, part_of_[from_node], part_of_[i]});
      } else {
        int& part = order_.crossings[found->second].to_part;
        part = std::min(part, part_of_[i]);
      }
    }
  }
}

}  // namespace

PipelineOrder order_pipeline(const Graph& graph, const StageLayout& plan) {
  PipelineOrder order = Orderer(graph, plan).run();
  check_messages(order, plan);
  return order;
}

Tag PipelineOrder::tag_of(const Graph& graph, const StageCrossing& crossing) const {
  for (const Node& node : graph.nodes()) {
    if (std::find(node.outputs.begin(), node.outputs.end(), crossing.value) != node.outputs.end()) {
      return node.tag;
    }
  }
  TESSERA_CHECK(false, "value {} has no producer", crossing.value);
}

void check_messages(const PipelineOrder& order, const StageLayout& plan) {
  // Each rank walks its parts and, apart from them, its messages. A part needs its values received;
  // a send needs its value made; a send and its receive happen together.
  const size_t ranks = order.items.size();
  using Key = std::tuple<int, int>;  // crossing, micro-batch
  std::vector<std::vector<PipelineItem>> parts(ranks);
  std::vector<std::vector<PipelineItem>> messages(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    for (const PipelineItem& item : order.items[r]) {
      (item.kind == Kind::kPart ? parts : messages)[r].push_back(item);
    }
  }
  std::vector<size_t> part_at(ranks, 0);
  std::vector<size_t> message_at(ranks, 0);
  std::set<std::tuple<int, int, int>> done;  // stage, part, micro-batch
  std::set<Key> moved;
  const auto rank_of = [&](int stage) {
    return static_cast<size_t>(plan.schedule.rank_of_stage[static_cast<size_t>(stage)]);
  };
  std::map<std::pair<int, int>, std::vector<size_t>> into;  // by stage and part
  for (size_t c = 0; c < order.crossings.size(); ++c) {
    into[{order.crossings[c].to_stage, order.crossings[c].to_part}].push_back(c);
  }
  const auto part_ready = [&](const PipelineItem& item) {
    for (const size_t c : into[{item.stage, item.part}]) {
      const StageCrossing& x = order.crossings[c];
      const bool local = rank_of(x.from_stage) == rank_of(x.to_stage);
      if (local ? !done.contains({x.from_stage, x.from_part, item.micro_batch})
                : !moved.contains({static_cast<int>(c), item.micro_batch})) {
        return false;
      }
    }
    return true;
  };
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t r = 0; r < ranks; ++r) {
      while (part_at[r] < parts[r].size() && part_ready(parts[r][part_at[r]])) {
        const PipelineItem& item = parts[r][part_at[r]++];
        done.insert({item.stage, item.part, item.micro_batch});
        progress = true;
      }
      if (message_at[r] == messages[r].size()) continue;
      const PipelineItem& send = messages[r][message_at[r]];
      if (send.kind != Kind::kSend) continue;
      const StageCrossing& x = order.crossings[static_cast<size_t>(send.crossing)];
      if (!done.contains({x.from_stage, x.from_part, send.micro_batch})) continue;
      const size_t to = rank_of(x.to_stage);
      if (message_at[to] == messages[to].size()) continue;
      const PipelineItem& receive = messages[to][message_at[to]];
      if (receive.kind != Kind::kReceive || receive.crossing != send.crossing ||
          receive.micro_batch != send.micro_batch) {
        continue;
      }
      moved.insert({send.crossing, send.micro_batch});
      ++message_at[r];
      ++message_at[to];
      progress = true;
    }
  }
  for (size_t r = 0; r < ranks; ++r) {
    TESSERA_CHECK(part_at[r] == parts[r].size() && message_at[r] == messages[r].size(),
                  "schedule {}: rank {} of the pipeline waits for ever, at action {} of {} and "
                  "message {} of {}",
                  plan.schedule.name, r, part_at[r], parts[r].size(), message_at[r],
                  messages[r].size());
  }
}

}  // namespace tessera
