// What fits: the states of training, ZeRO, activations.
#include "base/error.h"
#include "cost/explain/calculators.h"
#include "cost/explain/parameters.h"
#include "cost/formulas/activations.h"
#include "cost/formulas/states.h"

namespace tessera {
namespace {

using enum Unit;
using Kind = Parameter::Kind;

constexpr Parameter kWeights = {"weights", "w", kNumber, "2", "bytes of a weight"};
constexpr Parameter kGradients = {"gradients", "g", kNumber, "2", "bytes of a gradient"};
constexpr Parameter kMaster = {"master",    "c", kNumber, "4", "bytes of the f32 copy; 0: none",
                               Kind::kReal, true};
constexpr Parameter kMoments = {
    "moments", "o", kNumber, "8", "bytes of the optimizer's moments; 0: SGD", Kind::kReal, true};
constexpr Parameter kMemory = {"memory", "C", kBytes, "80GB", "memory of a device"};

StateBytes state_bytes(const Values& v) {
  return {v["weights"], v["gradients"], v["master"], v["moments"]};
}

std::string times(double bytes, const std::string& count) {
  return fmt::format("{:g} * {}", bytes, count);
}

// ---- memory ----

constexpr Parameter kMemoryParameters[] = {
    kModel,   kDevice, {"params", "P", kCount, "70B", "parameters"}, kWeights, kGradients, kMaster,
    kMoments, kMemory,
};

void explain_memory(const Values& v, Explanation& e) {
  const StateBytes bytes = state_bytes(v);
  const double p = v["params"], memory = v["memory"];
  const std::string count = v.shown("params");
  e.add("weights", "weights", "w P", times(bytes.weights, count), {bytes.weights * p, kBytes});
  e.add("gradients", "gradients", "g P", times(bytes.gradients, count),
        {bytes.gradients * p, kBytes});
  e.add("master", "f32 copy of the weights", "c P", times(bytes.master, count),
        {bytes.master * p, kBytes});
  e.add("moments", "moments of the optimizer", "o P", times(bytes.moments, count),
        {bytes.moments * p, kBytes});
  e.add("total", "all states", "(w+g+c+o) P", times(bytes.total(), count),
        {bytes.total() * p, kBytes});
  e.add("per_parameter", "bytes of a parameter", "w+g+c+o", "", {bytes.total(), kNumber});
  e.add("optimizer_share", "of them the optimizer's", "(c+o)/(w+g+c+o)", "",
        {bytes.optimizer() / bytes.total(), kShare});
  e.add("weights_share", "of them weights", "w/(w+g+c+o)", "",
        {bytes.weights / bytes.total(), kShare});
  e.add("devices", "devices whose memory they fill", "(w+g+c+o) P / C", "",
        {bytes.total() * p / memory, kNumber});
  e.add("first_fit", "ranks of ZeRO-3 that hold them, rounded up", "(w+g+c+o) P / C", "",
        {fewest_shards(bytes, 3, p, memory), kCount});
  e.add("largest", "largest model on one device", "C / (w+g+c+o)", "",
        {largest_model(bytes, 0, 1, memory), kCount});
  e.notes = {
      "Without activations, buffers and what the libraries reserve. 16 bytes are 2 + 2 + 4 + 4 + "
      "4; "
      "without the f32 copy (--master 0) they are 12."};
}

// ---- zero ----

constexpr Parameter kZeroParameters[] = {
    kModel,
    kDevice,
    {"params", "P", kCount, "7B", "parameters"},
    {"ranks", "N", kCount, "8", "data-parallel ranks", Kind::kWhole},
    {"shard", "K", kCount, "", "ranks that split the states; N/K groups then hold the same (HSDP)",
     Kind::kWhole},
    kWeights,
    kGradients,
    kMaster,
    kMoments,
    kMemory,
    {"table", "", kCount, "1,2,4,8,16", "numbers of ranks of the table", Kind::kReals},
};

constexpr std::string_view kZeroFormulas[kZeroStages] = {"(w+g+c+o) P", "(w + g + (c+o)/N) P",
                                                         "(w + (g+c+o)/N) P", "(w+g+c+o)/N P"};
constexpr std::string_view kLargestFormulas[kZeroStages] = {
    "C / (w+g+c+o)", "C / (w + g + (c+o)/N)", "C / (w + (g+c+o)/N)", "C N / (w+g+c+o)"};

void add_hybrid(const Values& v, const StateBytes& bytes, Explanation& e) {
  const double n = v["ranks"], k = v["shard"], p = v["params"];
  require_config(k <= n && v.whole("ranks") % v.whole("shard") == 0,
                 "--shard is {}: it must divide the {} ranks", v.whole("shard"), v.whole("ranks"));
  const double groups = n / k;
  e.add("groups", "groups that hold the same states", "N / K", fmt::format("{:g} / {:g}", n, k),
        {groups, kCount});
  e.add("hybrid", "states of a rank, split inside a group", "(w+g+c+o)/K P", "",
        {bytes_per_parameter(bytes, 3, k) * p, kBytes});
  e.add("inside_bytes", "sent inside a group by a rank", "3 w P (K-1)/K", "",
        {3 * bytes.weights * p * (k - 1) / k, kBytes});
  e.add("across_bytes", "sent between groups by a rank", "2 g P/K (G-1)/G, G = N/K", "",
        {2 * bytes.gradients * p / k * (groups - 1) / groups, kBytes});
}

void explain_zero(const Values& v, Explanation& e) {
  const StateBytes bytes = state_bytes(v);
  const double p = v["params"], n = v["ranks"], memory = v["memory"];
  for (int stage = 0; stage < kZeroStages; ++stage) {
    const double each = bytes_per_parameter(bytes, stage, n);
    e.add(fmt::format("stage{}", stage), fmt::format("ZeRO-{}: states of a rank", stage),
          std::string(kZeroFormulas[stage]), fmt::format("{:.6g} * {}", each, v.shown("params")),
          {each * p, kBytes});
  }
  e.add("optimizer_shard", "of them the optimizer's, from ZeRO-1 on", "(c+o)/N P", "",
        {bytes.optimizer() / n * p, kBytes});
  e.add("gradient_shard", "of them gradients, from ZeRO-2 on", "g/N P", "",
        {bytes.gradients / n * p, kBytes});
  for (int stage = 0; stage < kZeroStages; ++stage) {
    e.add(fmt::format("largest{}", stage), fmt::format("ZeRO-{}: largest model", stage),
          std::string(kLargestFormulas[stage]), "",
          {largest_model(bytes, stage, n, memory), kCount});
  }
  for (int stage = 0; stage < kZeroStages; ++stage) {
    e.add(fmt::format("volume{}", stage), fmt::format("ZeRO-{}: sent in a step, over P", stage),
          stage == 3   ? "two gathers and a reduce-scatter"
          : stage == 0 ? "an all-reduce"
                       : "a reduce-scatter and a gather",
          "", {zero_volume(stage), kNumber});
  }
  e.add("volume_ratio", "ZeRO-3 over ZeRO-0 traffic", "3 P / (2 P)", "",
        {zero_volume(3) / zero_volume(0), kNumber});
  if (v.has("shard")) add_hybrid(v, bytes, e);
  ResultTable table{"ranks", "States of a rank by number of ranks", {"ranks"}, {}};
  for (int stage = 0; stage < kZeroStages; ++stage) {
    table.columns.push_back(fmt::format("ZeRO-{}", stage));
  }
  for (const double ranks : v.list("table")) {
    require_config(ranks >= 1, "--table has {:g}: give numbers of ranks from 1", ranks);
    std::vector<Cell> row = {Quantity{ranks, kCount}};
    for (int stage = 0; stage < kZeroStages; ++stage) {
      row.emplace_back(Quantity{bytes_per_parameter(bytes, stage, ranks) * p, kBytes});
    }
    table.rows.push_back(std::move(row));
  }
  e.tables.push_back(std::move(table));
  e.notes = {
      "Sent in a step: elements as a multiple of P, times (N-1)/N, without gradient accumulation. "
      "With 2-byte weights and gradients ZeRO-3 sends 1.5 times what plain data parallelism "
      "sends."};
}

// ---- activations and recomputation ----

constexpr Parameter kSeq = {"seq", "s", kLength, "2048", "tokens of a sequence", Kind::kWhole};
constexpr Parameter kHeads = {"heads", "a", kCount, "32", "attention heads", Kind::kWhole};
constexpr Parameter kTp = {"tp", "t", kCount, "1", "tensor-parallel ranks", Kind::kWhole};
constexpr Parameter kCp = {"cp", "k", kCount, "1", "context-parallel ranks", Kind::kWhole};

constexpr Parameter kActivationParameters[] = {
    kModel,
    kLayers,
    kBatch,
    kSeq,
    kHidden,
    kHeads,
    kTp,
    kCp,
    kElement,
    {"values", "n", kNumber, "10", "values kept of each place of the stream, for a rough estimate"},
};

BlockShape block_of(const Values& v) {
  return {v["batch"], v["seq"], v["hidden"], v["heads"], v["tp"], v["cp"]};
}

void explain_activations(const Values& v, Explanation& e) {
  const BlockShape block = block_of(v);
  const double layers = v["layers"];
  const double stream = stream_bytes(block, v["element"]) * layers;
  e.add("stream", "residual stream after every block", "b s h L e",
        fmt::format("{:g} * {:g} * {:g} * {:g} * {:g}", block.batch, block.seq / block.cp,
                    block.hidden, layers, v["element"]),
        {stream, kBytes});
  e.add("rough", "rough estimate", "n b s h L e",
        fmt::format("{:g} * {}", v["values"], text_of(Quantity{stream, kBytes})),
        {v["values"] * stream, kBytes});
  e.add("all", "GPT blocks, everything kept", "s b h (10 + 24/t + 5 a s/(h t)) L", "",
        {block_bytes(block, Kept::kAll, false) * layers, kBytes});
  e.add("fused", "with fused attention", "s b h (10 + 24/t) L", "",
        {block_bytes(block, Kept::kSelective, false) * layers, kBytes});
  e.add("sequence_parallel", "and sequence parallelism", "34 s b h / t L", "",
        {block_bytes(block, Kept::kSelective, true) * layers, kBytes});
  e.add("full", "only the input of every block", "2 s b h L", "",
        {block_bytes(block, Kept::kFull, false) * layers, kBytes});
  e.notes = {
      "Terms of Korthikanti et al. (2022), 16-bit values, of one micro-batch. Context parallelism "
      "divides every term by k. What our programs keep is in 'tessera plan'."};
}

constexpr Parameter kRecomputeParameters[] = {kModel,  kLayers, kBatch, kSeq,
                                              kHidden, kHeads,  kTp,    kCp};

// Only the input of the first of k blocks in a row is kept; one group is recomputed at a time.
double root_bytes(const BlockShape& block, double layers, double group) {
  const double inputs = layers / group * block_bytes(block, Kept::kFull, false);
  return inputs + group * block_bytes(block, Kept::kSelective, false);
}

// The whole number next to the root of `layers` with the least memory.
double best_group(const BlockShape& block, double layers) {
  double best = 1;
  const double limit = layers < 4096 ? layers : 4096;
  for (double group = 2; group <= limit; group += 1) {
    if (root_bytes(block, layers, group) < root_bytes(block, layers, best)) best = group;
  }
  return best;
}

void explain_recompute(const Values& v, Explanation& e) {
  const BlockShape block = block_of(v);
  const double layers = v["layers"];
  const double one = block_bytes(block, Kept::kSelective, false);
  e.add("none", "nothing recomputed", "s b h (10 + 24/t + 5 a s/(h t)) L", "",
        {block_bytes(block, Kept::kAll, false) * layers, kBytes});
  e.add("selective", "the core of attention", "s b h (10 + 24/t) L", "", {one * layers, kBytes});
  e.add("full", "whole blocks", "2 s b h L + one block", "",
        {block_bytes(block, Kept::kFull, false) * layers + one, kBytes});
  const double group = best_group(block, layers);
  e.add("group", "best number of blocks between inputs", "k with least memory", "",
        {group, kCount});
  e.add("root", "every k-th input", "2 s b h L/k + k blocks", "",
        {root_bytes(block, layers, group), kBytes});
  e.add("selective_flops", "more FLOPs for the core", "4 s h / (3 (24 h^2 + 4 s h))", "",
        {extra_flops(block, Kept::kSelective), kShare});
  e.add("full_flops", "more FLOPs for whole blocks", "1 forward of 3", "",
        {extra_flops(block, Kept::kFull), kShare});
  e.notes = {
      "Forward is a third of a step's FLOPs, backward two thirds. All pairs of tokens are counted; "
      "a causal kernel needs half of the core."};
}

}  // namespace

Topic memory_topic() {
  return {"memory", "What training keeps of every parameter.", "--params 70B --memory 80GB",
          kMemoryParameters, explain_memory};
}

Topic zero_topic() {
  return {"zero", "What ZeRO leaves on every rank, and what it sends.", "--params 7B --ranks 8",
          kZeroParameters, explain_zero};
}

Topic activations_topic() {
  return {"activations", "What a micro-batch keeps for its backward pass.",
          "--model llama-2-7b --batch 16 --seq 2048", kActivationParameters, explain_activations};
}

Topic recompute_topic() {
  return {"recompute", "Memory for time: computing activations again.",
          "--layers 96 --hidden 12288 --heads 96", kRecomputeParameters, explain_recompute};
}

}  // namespace tessera
