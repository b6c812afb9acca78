#include "compile/lower/instances.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <tuple>

namespace tessera {
namespace {

using Kind = PipelineItem::Kind;

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

}  // namespace

std::vector<std::pair<int, int>> number_spans(std::vector<ItemSpan> spans) {
  const auto earlier = [](const ItemSpan& a, const ItemSpan& b) {
    return std::tie(a.first, a.micro_batch) < std::tie(b.first, b.micro_batch);
  };
  // Most schedules begin micro-batches in order.
  if (!std::is_sorted(spans.begin(), spans.end(), earlier)) {
    std::sort(spans.begin(), spans.end(), earlier);
  }
  std::vector<std::pair<int, int>> numbers;
  numbers.reserve(spans.size());
  // Spans that have begun, by their end, and the numbers that ended ones have left.
  using Ending = std::pair<int, int>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> busy;
  std::priority_queue<int, std::vector<int>, std::greater<>> left;
  int used = 0;
  for (const ItemSpan& span : spans) {
    for (; !busy.empty() && busy.top().first < span.first; busy.pop()) left.push(busy.top().second);
    const int number = left.empty() ? used++ : left.top();
    if (!left.empty()) left.pop();
    busy.emplace(span.last, number);
    numbers.emplace_back(span.micro_batch, number);
  }
  return numbers;
}

int most_at_once(const std::vector<std::pair<int, int>>& numbers) {
  int most = 0;
  for (const auto& [micro_batch, number] : numbers) most = std::max(most, number + 1);
  return most;
}

int part_after(const std::vector<PipelineItem>& items, size_t i) {
  for (size_t next = i + 1; next < items.size(); ++next) {
    if (items[next].kind == Kind::kPart) return static_cast<int>(next);
  }
  return static_cast<int>(i);
}

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
  std::map<int, std::map<int, ItemSpan>> by_stage;          // stage, micro-batch
  std::map<StorageId, std::map<int, ItemSpan>> by_storage;  // passing storages, micro-batch
  std::map<std::pair<int, int>, std::set<StorageId>> uses;  // stage, part
  const auto include = [](std::map<int, ItemSpan>& spans, int micro_batch, int item) {
    ItemSpan& span = spans[micro_batch];
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
  const auto values = [](const std::map<int, ItemSpan>& spans) {
    std::vector<ItemSpan> list;
    for (const auto& [micro_batch, span] : spans) list.push_back(span);
    return list;
  };
  for (const auto& [stage, spans] : by_stage) {
    const auto numbers = number_spans(values(spans));
    for (const auto& [micro_batch, lane] : numbers) result.lane_of_[{stage, micro_batch}] = lane;
    result.lanes_[stage] = most_at_once(numbers);
  }
  for (const auto& [id, spans] : by_storage) {
    const auto numbers = number_spans(values(spans));
    for (const auto& [micro_batch, instance] : numbers) {
      result.passing_of_[{id, micro_batch}] = instance;
    }
    map.storages[static_cast<size_t>(id)].instances = most_at_once(numbers);
  }
  return result;
}

}  // namespace tessera
