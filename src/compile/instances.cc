#include "compile/instances.h"

#include <algorithm>
#include <set>

namespace tessera {
namespace {

using Kind = PipelineItem::Kind;

// From the first to the last item that uses something, inclusive.
struct Span {
  int micro_batch = 0;
  int first = INT_MAX;
  int last = -1;
  void include(int item) {
    first = std::min(first, item);
    last = std::max(last, item);
  }
};

// Gives spans that overlap different numbers, the lowest that is free. Returns how many it took.
template <typename Assign>
int colour(std::vector<Span> spans, const Assign& assign) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.first, a.micro_batch) < std::tie(b.first, b.micro_batch);
  });
  std::vector<int> busy_until;
  for (const Span& span : spans) {
    size_t colour = 0;
    while (colour < busy_until.size() && busy_until[colour] >= span.first) ++colour;
    if (colour == busy_until.size()) busy_until.push_back(-1);
    busy_until[colour] = span.last;
    assign(span.micro_batch, static_cast<int>(colour));
  }
  return static_cast<int>(busy_until.size());
}

// Storages that the nodes of one part touch.
std::set<StorageId> touched_by(const StepGraph& step, const StorageMap& map, int stage, int part) {
  std::set<StorageId> storages;
  const StageParts& parts = step.pipeline.stages[static_cast<size_t>(stage)];
  for (const size_t i : parts.parts[static_cast<size_t>(part)]) {
    const Node& node = step.graph().nodes()[i];
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId v : *values) storages.insert(map.slots.at(v).storage);
    }
  }
  return storages;
}

// A send still reads its value while the next part runs.
int part_after(const std::vector<PipelineItem>& items, size_t i) {
  for (size_t next = i + 1; next < items.size(); ++next) {
    if (items[next].kind == Kind::kPart) return static_cast<int>(next);
  }
  return static_cast<int>(i);
}

}  // namespace

int InstanceMap::of(const Storage& storage, StorageId id, int micro_batch) const {
  switch (storage.kind) {
    case StorageKind::kPersistent:
      return 0;
    case StorageKind::kPassing:
      return passing_of_.at({id, micro_batch});
    default:
      return lane_of_.at({storage.stage, micro_batch});
  }
}

InstanceMap count_instances(const StepGraph& step, StorageMap& map,
                            const std::vector<PipelineItem>& items) {
  InstanceMap result;
  std::map<int, std::map<int, Span>> by_stage;              // stage, micro-batch
  std::map<StorageId, std::map<int, Span>> by_storage;      // passing storages, micro-batch
  std::map<std::pair<int, int>, std::set<StorageId>> uses;  // stage, part
  const auto include = [](std::map<int, Span>& spans, int micro_batch, int item) {
    Span& span = spans[micro_batch];
    span.micro_batch = micro_batch;
    span.include(item);
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const PipelineItem& item = items[i];
    const auto index = static_cast<int>(i);
    if (item.kind == Kind::kPart) {
      include(by_stage[item.stage], item.micro_batch, index);
      const auto [found, fresh] = uses.try_emplace({item.stage, item.part});
      if (fresh) found->second = touched_by(step, map, item.stage, item.part);
      for (const StorageId id : found->second) {
        if (map.storages[static_cast<size_t>(id)].kind != StorageKind::kPassing) continue;
        include(by_storage[id], item.micro_batch, index);
      }
      continue;
    }
    const ValueId value = step.pipeline.crossings[static_cast<size_t>(item.crossing)].value;
    const StorageId id = map.slots.at(value).storage;
    include(by_storage[id], item.micro_batch, index);
    if (item.kind == Kind::kSend) include(by_storage[id], item.micro_batch, part_after(items, i));
  }
  const auto values = [](const std::map<int, Span>& spans) {
    std::vector<Span> list;
    for (const auto& [micro_batch, span] : spans) list.push_back(span);
    return list;
  };
  for (const auto& [stage, spans] : by_stage) {
    result.lanes_[stage] = colour(values(spans), [&, s = stage](int micro_batch, int lane) {
      result.lane_of_[{s, micro_batch}] = lane;
    });
  }
  for (const auto& [id, spans] : by_storage) {
    map.storages[static_cast<size_t>(id)].instances =
        colour(values(spans), [&, storage = id](int micro_batch, int instance) {
          result.passing_of_[{storage, micro_batch}] = instance;
        });
  }
  return result;
}

}  // namespace tessera
