#include "api/show/parallel/grid.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "api/show/parallel/rank_grid.h"
#include "api/show/values.h"
#include "base/error.h"
#include "base/text/noun.h"
#include "base/text/text.h"
#include "compile/pipeline/stages.h"
#include "cost/hardware/catalogue.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/run_spec.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ShowField::Kind;

constexpr int64_t kMostRanks = 32'768;
constexpr const char* kUsualOrder = "tp-cp-ep-fsdp-dp-pp";

constexpr ShowField kGridFields[] = {
    {"mesh", Kind::kJson, "", "sizes of axes by name, instead of the flags of the axes"},
    {"tp", Kind::kWhole, "", "ranks that split every layer", 1, kMostRanks},
    {"cp", Kind::kWhole, "", "ranks that split a sequence", 1, kMostRanks},
    {"ep", Kind::kWhole, "", "ranks that share the experts, out of tp, cp, fsdp and dp", 1,
     kMostRanks},
    {"fsdp", Kind::kWhole, "", "ranks that share one replica's weights", 1, kMostRanks},
    {"dp", Kind::kWhole, "", "replicas", 1, kMostRanks},
    {"pp", Kind::kWhole, "", "pipeline ranks", 1, kMostRanks},
    {"cluster", Kind::kText, "", "whose links join them (default: as many h100)", 0, 0, "",
     "NAME|FILE"},
    {"model", Kind::kText, "", "whose layers they hold", 0, 0, "", "NAME|FILE"},
    {"order", Kind::kText, kUsualOrder, "of the axes, those whose ranks are neighbours first"},
    {"rank", Kind::kWhole, "0", "of whom more is said", 0, kMostRanks - 1},
};

int64_t size_of(const ShowValues& values, std::string_view axis) {
  if (values.has(axis)) return values.whole(axis);
  if (!values.has("mesh")) return 1;
  const nlohmann::json& mesh = values.json("mesh");
  const auto found = mesh.find(std::string(axis));
  if (found == mesh.end()) return 1;
  require_config(found->is_number_integer() && *found >= 1 && *found <= kMostRanks,
                 "grid: mesh.{} is {}: expected a whole number from 1 to {}", axis, found->dump(),
                 kMostRanks);
  return found->get<int64_t>();
}

void check_mesh(const ShowValues& values) {
  if (!values.has("mesh")) return;
  const nlohmann::json& mesh = values.json("mesh");
  if (!mesh.is_object())
    values.refuse("mesh", "an object of sizes, such as {\"tp\": 8, \"pp\": 4}");
  constexpr std::array<std::string_view, 6> kKnown = {"tp", "cp", "ep", "fsdp", "dp", "pp"};
  for (const auto& [name, size] : mesh.items()) {
    require_config(std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end(),
                   "grid: mesh has no axis {}; {}", in_quotes(name),
                   suggestion(name, kKnown, "axes"));
  }
}

// Innermost first, as `order` says; axes that it leaves out come after it.
std::vector<GridAxis> axes_of(const ShowValues& values) {
  std::vector<GridAxis> axes;
  const auto has = [&](std::string_view name) {
    return std::any_of(axes.begin(), axes.end(), [&](const GridAxis& a) { return a.name == name; });
  };
  const auto& usual = RankGrid::kUsualOrder;
  const std::string order = values.text("order");
  for (const std::string_view name : split(order, '-')) {
    if (name == "ep") continue;  // takes ranks of the others
    const bool known = std::find(usual.begin(), usual.end(), name) != usual.end();
    if (!known || has(name)) {
      values.refuse("order", fmt::format("each of tp, cp, ep, fsdp, dp and pp once, such as {}",
                                         kUsualOrder));
    }
    axes.push_back({std::string(name), size_of(values, name)});
  }
  for (const std::string_view name : usual) {
    if (!has(name)) axes.push_back({std::string(name), size_of(values, name)});
  }
  return axes;
}

RankGrid grid_of(const ShowValues& values) {
  check_mesh(values);
  std::vector<GridAxis> axes = axes_of(values);
  double world = 1, outside_pipeline = 1;
  for (const GridAxis& axis : axes) {
    world *= static_cast<double>(axis.size);
    if (axis.name != "pp") outside_pipeline *= static_cast<double>(axis.size);
  }
  require_config(world <= kMostRanks,
                 "grid: the mesh has {:.0f} ranks, and at most {} are shown; lower an axis", world,
                 kMostRanks);
  const int64_t ep = size_of(values, "ep");
  require_config(static_cast<int64_t>(outside_pipeline) % ep == 0,
                 "grid: ep = {} does not divide the {:.0f} ranks of tp * cp * fsdp * dp; use one "
                 "that does",
                 ep, outside_pipeline);
  return {std::move(axes), ep};
}

Cluster cluster_of(const ShowValues& values, const RankGrid& grid, const Surroundings& around) {
  Cluster cluster = values.has("cluster")
                        ? find_cluster(values.text("cluster"), around.read)
                        : with_devices(find_cluster("h100", around.read), grid.world());
  require_config(grid.world() <= cluster.devices,
                 "grid: the mesh has {} ranks but cluster {} has {} devices; lower an axis, or use "
                 "a larger cluster",
                 grid.world(), cluster.name, cluster.devices);
  return cluster;
}

// The innermost level of links that joins them; -1: they are one.
int level_joining(const Cluster& cluster, int64_t first, int64_t last) {
  if (first == last) return -1;
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    const int64_t devices = cluster.levels[i].devices;
    if (devices == 0 || first / devices == last / devices) return static_cast<int>(i);
  }
  return static_cast<int>(cluster.levels.size()) - 1;
}

// The outermost level that any group of an axis needs.
int worst_level(const RankGrid& grid, const Cluster& cluster, std::string_view axis) {
  int worst = -1;
  const int64_t world = grid.world();
  for (int64_t rank = 0; rank < world; ++rank) {
    if (grid.coord(rank, axis) != 0) continue;
    const std::vector<int64_t> group = grid.peers(rank, axis);
    worst = std::max(worst, level_joining(cluster, group.front(), group.back()));
  }
  return worst;
}

Json warnings_json(const RankGrid& grid, const Cluster& cluster) {
  Json warnings = Json::array();
  if (cluster.levels.size() < 2) return warnings;
  for (const std::string_view axis : {"tp", "cp", "ep"}) {
    if (grid.size(axis) == 1) continue;
    const int level = worst_level(grid, cluster, axis);
    if (level <= 0) continue;
    const LinkLevel& inner = cluster.levels.front();
    const LinkLevel& outer = cluster.levels[static_cast<size_t>(level)];
    warnings.push_back(fmt::format(
        "{} crosses nodes: its {} ranks are not on one node of {}, so that they talk over {} at "
        "{:g} GB/s instead of {} at {:g} GB/s",
        axis, grid.size(axis), cluster.node_devices(), outer.name, outer.bandwidth.value / 1e9,
        inner.name, inner.bandwidth.value / 1e9));
  }
  return warnings;
}

// Layers of a stage, from one to before another.
Json layers_json(const ShowValues& values, const RankGrid& grid, int64_t stage,
                 const Surroundings& around) {
  RunSpec spec;
  spec.model = find_model(values.text("model"), around.read).model;
  spec.parallel.pp = grid.size("pp");
  spec.parallel.tp = grid.size("tp");
  const std::vector<int64_t> layers = layers_per_stage(spec, static_cast<int>(spec.parallel.pp));
  int64_t from = 0;
  for (int64_t s = 0; s < stage; ++s) from += layers[static_cast<size_t>(s)];
  return {from, from + layers[static_cast<size_t>(stage)]};
}

constexpr std::array<std::string_view, 6> kNames = {"tp", "cp", "ep", "fsdp", "dp", "pp"};

Json rank_json(const ShowValues& values, const RankGrid& grid, const Cluster& cluster,
               const Surroundings& around) {
  const int64_t rank = values.whole("rank");
  if (rank >= grid.world()) values.refuse("rank", fmt::format("one of 0 to {}", grid.world() - 1));
  Json coords = Json::object(), peers = Json::object(), links = Json::object();
  for (const std::string_view name : kNames) {
    const std::string key(name);
    if (name != "ep" || grid.ep() > 1) coords[key] = grid.coord(rank, name);
    if (grid.size(name) == 1) continue;
    const std::vector<int64_t> group = grid.peers(rank, name);
    const int level = level_joining(cluster, group.front(), group.back());
    peers[key] = group;
    if (level >= 0) links[key] = cluster.levels[static_cast<size_t>(level)].name;
  }
  Json json = {{"coords", std::move(coords)},
               {"node", rank / cluster.node_devices()},
               {"stage", grid.coord(rank, "pp")},
               {"data_shard", grid.data_shard(rank)},
               {"data_shards", grid.size("dp") * grid.size("fsdp")}};
  if (values.has("model")) {
    json["layers"] = layers_json(values, grid, grid.coord(rank, "pp"), around);
  }
  json["peers"] = std::move(peers);
  json["link"] = std::move(links);
  return json;
}

Json grid_json(const ShowValues& values, const Surroundings& around) {
  const RankGrid grid = grid_of(values);
  const Cluster cluster = cluster_of(values, grid, around);
  Json axes = Json::array(), coords = Json::object();
  for (const GridAxis& axis : grid.axes()) {
    axes.push_back({{"axis", axis.name}, {"size", axis.size}, {"stride", axis.stride}});
  }
  const int64_t world = grid.world();
  for (const std::string_view name : kNames) {
    if (name == "ep" && grid.ep() == 1) continue;
    std::vector<int64_t> of_ranks(static_cast<size_t>(world));
    for (int64_t rank = 0; rank < world; ++rank)
      of_ranks[static_cast<size_t>(rank)] = grid.coord(rank, name);
    coords[std::string(name)] = std::move(of_ranks);
  }
  const int64_t node = cluster.node_devices();
  return {{"world", world},
          {"cluster", cluster.name},
          {"axes", std::move(axes)},
          {"ep", grid.ep()},
          {"node_size", node},
          {"nodes", (world + node - 1) / node},
          {"coords", std::move(coords)},
          {"rank", values.whole("rank")},
          {"rank_info", rank_json(values, grid, cluster, around)},
          {"warnings", warnings_json(grid, cluster)}};
}

std::string grid_text(const ShowValues& values, const Surroundings& around) {
  const Json json = grid_json(values, around);
  const Json& info = json.at("rank_info");
  std::string text =
      fmt::format("{} on {} of {}\n\n", count_of(json.at("world").get<int64_t>(), "rank"),
                  with_noun(json.at("nodes").dump(), "node"), json.at("node_size").dump());
  TextTable table({{"axis"},
                   {"size", Align::kRight},
                   {"stride", Align::kRight},
                   {"of rank " + json.at("rank").dump(), Align::kRight},
                   {"link"},
                   {"peers"}});
  for (const Json& axis : json.at("axes")) {
    const std::string name = axis.at("axis");
    const bool alone = axis.at("size") == 1;
    std::string peers = alone ? "" : info.at("peers").at(name).dump();
    constexpr size_t kMost = 60;
    if (peers.size() > kMost) peers = peers.substr(0, kMost) + "…";
    table.add_row({name, axis.at("size").dump(), axis.at("stride").dump(),
                   info.at("coords").at(name).dump(), alone ? "" : info.at("link").value(name, ""),
                   peers});
  }
  text += table.str();
  if (info.contains("layers")) text += fmt::format("\nlayers {}\n", info.at("layers").dump());
  for (const Json& warning : json.at("warnings")) {
    text += "\nwarning: " + warning.get<std::string>() + "\n";
  }
  return text;
}

}  // namespace

ShowTopic mesh_grid_topic() {
  return {"grid",
          "Who is who in a mesh: coordinates, peers and links of every rank.",
          "--tp 8 --pp 16 --dp 192 --model llama-3-405b --rank 1234",
          kGridFields,
          grid_json,
          for_terminals(grid_text)};
}

}  // namespace tessera
