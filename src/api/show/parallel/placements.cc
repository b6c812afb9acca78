#include "api/show/parallel/placements.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/show/run_fields.h"
#include "api/show/values.h"
#include "api/simulate.h"
#include "base/error.h"
#include "base/text/text.h"
#include "compile/model/limits.h"
#include "compile/step.h"
#include "draw/held_parts.h"
#include "plan/report/plan_json.h"
#include "spec/run_file/trainable.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostShownRanks = 64;
constexpr double kMostBuilt = 1 << 18;  // instructions, and about four times as many nodes
constexpr int kFirstBlock = 1;          // unit 0 is the embedding

StepGraph step_of(const ShowValues& values, const Surroundings& around) {
  std::vector<Guess> guesses;
  SimulateQuery query = with_recipe(simulate_query(values.request()), around, guesses);
  const RunSpec spec = load_simulated(query, around, guesses);
  refuse_fp8(query.split, "placements");
  require_trainable(spec.model);
  const double size = estimated_instructions(spec, 1);
  require_config(size <= kMostBuilt,
                 "placements: a rank of each stage has about {:.3g} instructions together, and at "
                 "most {:.0f} are looked at; use fewer layers (set model.layers) or micro-batches "
                 "(global_batch): the placements are the same",
                 size, kMostBuilt);
  return build_step(spec, StepKind::kTraining);
}

// All ranks of a small mesh; of a large one those with the first two places on dp and fsdp, and at
// the two ends of the pipeline.
std::vector<int> shown_ranks(const Mesh& mesh) {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const int64_t stage = mesh.coord(rank, Axis::kPp);
    const bool typical =
        mesh.position(rank, sample_axes()) < 2 && (stage == 0 || stage == mesh.size(Axis::kPp) - 1);
    if (mesh.world() <= kMostShownRanks || typical) ranks.push_back(rank);
  }
  ranks.resize(std::min<size_t>(ranks.size(), kMostShownRanks));
  return ranks;
}

std::string_view kind_name(Placement placement) {
  switch (placement.kind) {
    case Placement::Kind::kSplit:
      return "split";
    case Placement::Kind::kPartial:
      return "partial";
    case Placement::Kind::kMaximum:
      return "maximum";
    case Placement::Kind::kReplicate:
    case Placement::Kind::kInvariant:
      return "replicated";
  }
  return "";
}

// Axes of more than one rank; pp holds other tensors, not parts of them.
Json parts_json(const TensorType& type, const Mesh& mesh) {
  Json parts = Json::array();
  for (const Axis axis : kAllAxes) {
    if (mesh.size(axis) == 1 || axis == Axis::kPp) continue;
    const Placement placement = type.on(axis);
    Json part = {
        {"axis", name_of(axis)}, {"kind", kind_name(placement)}, {"letter", to_string(placement)}};
    if (placement.kind == Placement::Kind::kSplit) part["dim"] = placement.dim;
    parts.push_back(std::move(part));
  }
  return parts;
}

// [[first row, end, first column, end], …] of each shown rank.
Json slices_json(const HeldTensor& held, const std::vector<int>& ranks) {
  Json slices = Json::array();
  for (const int rank : ranks) {
    Json of_rank = Json::array();
    for (const Rect& rect : held.by_rank[static_cast<size_t>(rank)]) {
      of_rank.push_back({rect.first_row, rect.first_row + rect.num_rows, rect.first_col,
                         rect.first_col + rect.num_cols});
    }
    slices.push_back(std::move(of_rank));
  }
  return slices;
}

Json tensor_json(std::string_view role, const std::string& name, const TensorType& type, int unit,
                 const StepGraph& step) {
  return {{"name", name},
          {"role", role},
          {"unit", unit},
          {"stage", step.stages.stage_of(unit)},
          {"shape", type.shape},
          {"local_shape", local_shape(type, step.mesh)},
          {"dtype", name_of(type.dtype)},
          {"type", type_text(type, step.mesh)},
          {"parts", parts_json(type, step.mesh)}};
}

void add_weights(const StepGraph& step, const std::vector<int>& ranks, Json& tensors) {
  for (const Bucket& bucket : step.layout.buckets) {
    const bool shown = bucket.unit <= kFirstBlock || bucket.unit == step.layout.num_units - 1;
    if (!shown || bucket.copy_of >= 0) continue;
    for (const Weight& weight : bucket.weights) {
      const HeldTensor held = held_weight(step, weight.name, weight.name);
      Json json = tensor_json("weight", weight.name, weight.type, bucket.unit, step);
      json["rows"] = held.rows;
      json["cols"] = held.cols;
      json["slices"] = slices_json(held, ranks);
      tensors.push_back(std::move(json));
    }
  }
}

// Nodes of the forward of the first block, in order.
std::vector<const Node*> block_nodes(const StepGraph& step) {
  std::vector<const Node*> nodes;
  for (const Node& node : step.graph().nodes()) {
    const bool source = node.inputs.empty();
    if (node.tag.unit == kFirstBlock && node.tag.pass == Pass::kForward && !source) {
      nodes.push_back(&node);
    }
  }
  return nodes;
}

bool is_rows_of_tokens(const StepGraph& step, const TensorType& type) {
  const Shape& tokens = step.graph().type(step.forward.tokens).shape;
  return type.shape.size() == 2 && !tokens.empty() && type.shape.front() == tokens.front();
}

void add_values(const StepGraph& step, const std::vector<int>& ranks, Json& tensors) {
  for (const Node* node : block_nodes(step)) {
    for (const ValueId id : node->outputs) {
      const Value& value = step.graph().value(id);
      if (!is_rows_of_tokens(step, value.type)) continue;
      const HeldTensor held = held_value(step, value.name, value.type);
      Json json = tensor_json("activation", value.name, value.type, kFirstBlock, step);
      json["rows"] = held.rows;
      json["cols"] = held.cols;
      json["slices"] = slices_json(held, ranks);
      tensors.push_back(std::move(json));
    }
  }
}

// Some casts move nothing: a rank takes its part of what it has, or all of it for another use.
std::string_view collective_of(CastKind kind) {
  const bool moves = kind != CastKind::kNothing && kind != CastKind::kSlice;
  return moves ? collective_name(kind) : "none";
}

// What a cast does on its axes, and how much of it a rank has at least on one side.
Json cast_json(const StepGraph& step, const Node& node) {
  const TensorType& from = step.graph().type(node.inputs.front());
  const TensorType& to = step.graph().type(node.outputs.front());
  for (const Axis axis : kAllAxes) {
    if (!node.attrs.axes.contains(axis) || from.on(axis) == to.on(axis)) continue;
    const int64_t elements =
        std::max(numel(local_shape(from, step.mesh)), numel(local_shape(to, step.mesh)));
    return {{"axis", name_of(step.mesh.group(node.attrs.axes))},
            {"from", to_string(from.on(axis))},
            {"to", to_string(to.on(axis))},
            {"collective", collective_of(cast_kind(from.on(axis), to.on(axis)))},
            {"bytes", elements * size_bytes(to.dtype)}};
  }
  return nullptr;
}

Json block_json(const StepGraph& step) {
  const Graph& graph = step.graph();
  Json json = Json::array();
  for (const Node* node : block_nodes(step)) {
    Json inputs = Json::array();
    for (const ValueId id : node->inputs) inputs.push_back(graph.value(id).name);
    Json one = {{"op", name_of(node->op)}, {"name", node->name}, {"inputs", std::move(inputs)}};
    if (!node->outputs.empty()) {
      const Value& output = graph.value(node->outputs.front());
      one["output"] = output.name;
      one["type"] = type_text(output.type, step.mesh);
      one["parts"] = parts_json(output.type, step.mesh);
      // Split over tp by tokens: what sequence parallelism splits.
      one["sequence_parallel"] =
          step.mesh.size(Axis::kTp) > 1 && output.type.on(Axis::kTp) == split(0);
    }
    if (node->op == OpKind::kCast) {
      const Json cast = cast_json(step, *node);
      if (!cast.is_null()) one["cast"] = cast;
    }
    json.push_back(std::move(one));
  }
  return json;
}

Json placements_json(const ShowValues& values, const Surroundings& around) {
  const StepGraph step = step_of(values, around);
  Json json = document_head("placements", step.mesh, step.layout.num_parameters);
  json.erase("schema_version");
  json.erase("kind");
  const std::vector<int> ranks = shown_ranks(step.mesh);
  json["ranks"] = ranks;
  json["rank_coords"] = Json::array();
  for (const int rank : ranks) json["rank_coords"].push_back(step.mesh.describe(rank));
  Json tensors = Json::array();
  add_weights(step, ranks, tensors);
  add_values(step, ranks, tensors);
  json["tensors"] = std::move(tensors);
  json["blocks"] = block_json(step);
  return json;
}

std::string placements_text(const ShowValues& values, const Surroundings& around) {
  const Json json = placements_json(values, around);
  TextTable table({{"tensor"}, {"role"}, {"type"}});
  for (const Json& one : json.at("tensors")) {
    table.add_row({one.at("name"), one.at("role"), one.at("type")});
  }
  TextTable block({{"operation"}, {"output"}, {"type"}, {"collective"}});
  for (const Json& one : json.at("blocks")) {
    const std::string collective =
        one.contains("cast")
            ? fmt::format("{} over {}", one.at("cast").at("collective").get<std::string>(),
                          one.at("cast").at("axis").get<std::string>())
            : "";
    block.add_row({one.at("op"), one.value("output", ""), one.value("type", ""), collective});
  }
  return table.str() + "\nthe first block\n" + block.str();
}

}  // namespace

ShowTopic placements_topic() {
  static const std::vector<ShowField> fields = with_run_fields({});
  return {"placements",
          "Which part of every tensor each rank holds, and what a block does with it.",
          "--model gpt2 --cluster h100-4 --tp 2 --dp 2 --sequence-parallel",
          fields,
          placements_json,
          for_terminals(placements_text)};
}

}  // namespace tessera
