#include "checkpoint/store/save_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.h"

namespace tessera {
namespace {

struct Group {
  HeldBox held;
  std::vector<int64_t> holders;  // ranks, ascending
  int64_t bytes = 0;
};

int64_t bytes_of(const SavePlan& plan, const HeldBox& held) {
  const auto bytes = tensor_bytes(plan.tensors[held.tensor].type, held.box.shape);
  TESSERA_CHECK(bytes.has_value(), "a box of '{}' has no size", plan.tensors[held.tensor].name);
  return *bytes;
}

std::vector<Group> groups_of(const SavePlan& plan, const std::vector<std::vector<HeldBox>>& held) {
  std::map<HeldBox, std::vector<int64_t>> holders;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    for (const HeldBox& box : held[rank]) {
      TESSERA_CHECK(box.tensor < plan.tensors.size(), "tensor {} of {}", box.tensor,
                    plan.tensors.size());
      holders[box].push_back(static_cast<int64_t>(rank));
    }
  }
  std::vector<Group> groups;
  for (auto& [box, ranks] : holders) groups.push_back({box, std::move(ranks), bytes_of(plan, box)});
  return groups;
}

void check_cover(const SavePlan& plan, const std::vector<Group>& groups) {
  std::vector<std::vector<Box>> boxes(plan.tensors.size());
  for (const Group& group : groups) boxes[group.held.tensor].push_back(group.held.box);
  for (size_t t = 0; t < boxes.size(); ++t) {
    const std::string problem = cover_problem(plan.tensors[t].shape, std::move(boxes[t]));
    TESSERA_CHECK(problem.empty(), "ranks hold of '{}': {}", plan.tensors[t].name, problem);
  }
}

// Boxes that one rank alone can write come first; then the large ones, each to the rank that has
// least to do.
void deal(std::vector<Group> groups, SavePlan& plan) {
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return std::tuple(a.holders.size() > 1, -a.bytes, a.held) <
           std::tuple(b.holders.size() > 1, -b.bytes, b.held);
  });
  std::vector<int64_t> load(plan.writes.size(), 0);
  for (Group& group : groups) {
    const int64_t writer = *std::ranges::min_element(
        group.holders, {}, [&](int64_t rank) { return load[static_cast<size_t>(rank)]; });
    load[static_cast<size_t>(writer)] += group.bytes;
    plan.writes[static_cast<size_t>(writer)].push_back(std::move(group.held));
  }
}

TensorHead head_of(const SavePlan& plan, const HeldBox& held) {
  const TensorHead& tensor = plan.tensors[held.tensor];
  return {chunk_name(tensor.name, held.box), tensor.type, held.box.shape};
}

// As sort_in_file_order() has them.
void sort_for_file(const SavePlan& plan, std::vector<HeldBox>& boxes) {
  std::ranges::sort(boxes, {}, [&](const HeldBox& held) {
    const TensorHead head = head_of(plan, held);
    return std::tuple(-static_cast<int>(head.type), head.name);
  });
}

}  // namespace

SavePlan plan_save(std::vector<TensorHead> tensors, std::vector<std::vector<HeldBox>> held) {
  SavePlan plan;
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t t) -> const std::string& { return tensors[t].name; });
  std::vector<size_t> place(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (const size_t t : order) plan.tensors.push_back(std::move(tensors[t]));
  for (std::vector<HeldBox>& boxes : held) {
    for (HeldBox& box : boxes) box.tensor = place[box.tensor];
    std::erase_if(boxes, [](const HeldBox& box) { return volume(box.box) == 0; });
  }
  plan.writes.resize(held.size());
  std::vector<Group> groups = groups_of(plan, held);
  check_cover(plan, groups);
  deal(std::move(groups), plan);
  for (std::vector<HeldBox>& boxes : plan.writes) sort_for_file(plan, boxes);
  return plan;
}

int64_t bytes_written(const SavePlan& plan, int64_t rank) {
  int64_t bytes = 0;
  for (const HeldBox& held : plan.writes[static_cast<size_t>(rank)]) bytes += bytes_of(plan, held);
  return bytes;
}

ShardLayout layout_shard(const SavePlan& plan, const SaveId& id, int64_t step, int64_t rank) {
  const FormatVersion version;
  const std::map<std::string, std::string> metadata = {
      {"format", std::string(kFormatName)},
      {"version", fmt::format("{}.{}", version.major, version.minor)},
      {"run", id.run},
      {"generation", std::to_string(id.generation)},
      {"save", id.save},
      {"step", std::to_string(step)},
      {"rank", std::to_string(rank)},
      {"world", std::to_string(plan.world())}};
  const std::vector<HeldBox>& boxes = plan.writes[static_cast<size_t>(rank)];
  std::vector<TensorHead> heads;
  for (const HeldBox& held : boxes) heads.push_back(head_of(plan, held));
  ShardLayout layout;
  layout.head = safetensors_head(heads, metadata);
  layout.bytes = static_cast<int64_t>(layout.head.size());
  for (const HeldBox& held : boxes) {
    layout.begins.push_back(layout.bytes);
    layout.bytes += bytes_of(plan, held);
  }
  return layout;
}

Manifest manifest_of(const SavePlan& plan, const SaveId& id, int64_t step) {
  Manifest manifest;
  manifest.head = {{}, id, step};
  for (const TensorHead& tensor : plan.tensors) {
    manifest.tensors.push_back({tensor.name, tensor.type, tensor.shape, {}});
  }
  for (int64_t rank = 0; rank < plan.world(); ++rank) {
    const ShardLayout layout = layout_shard(plan, id, step, rank);
    manifest.files.push_back({data_file(rank, plan.world()), layout.bytes});
    const std::vector<HeldBox>& boxes = plan.writes[static_cast<size_t>(rank)];
    for (size_t i = 0; i < boxes.size(); ++i) {
      const int64_t begin = layout.begins[i];
      manifest.tensors[boxes[i].tensor].chunks.push_back(
          {boxes[i].box, rank, begin, begin + bytes_of(plan, boxes[i])});
    }
  }
  return manifest;
}

}  // namespace tessera
