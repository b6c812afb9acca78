// What moves between ranks, and how long that takes.
#include "base/error.h"
#include "cost/explain/calculators.h"
#include "cost/explain/parameters.h"
#include "cost/formulas/activations.h"
#include "cost/formulas/rings.h"

namespace tessera {
namespace {

using enum Unit;
using Kind = Parameter::Kind;

constexpr Parameter kBandwidth = {"bandwidth", "B", kBytesPerSecond, "25GB/s",
                                  "what a rank sends in one direction"};
constexpr Parameter kLatency = {"latency", "a", kSeconds, "0", "of one message", Kind::kReal, true};
constexpr Parameter kSeq = {"seq", "s", kLength, "4096", "tokens of a sequence", Kind::kWhole};

LinkRate link_of(const Values& v) { return {v["bandwidth"], v["latency"]}; }

std::string ring_numbers(double ranks, const std::string& bytes) {
  return fmt::format("2 * {:g}/{:g} * {}", ranks - 1, ranks, bytes);
}

// ---- ring ----

constexpr Parameter kRingParameters[] = {
    {"bytes", "X", kBytes, "140GB", "the whole array, on every rank"},
    {"ranks", "N", kCount, "32", "ranks", Kind::kWhole},
    kBandwidth,
    kLatency,
    {"table", "", kCount, "2,4,8,16,32,64,128,1024", "numbers of ranks of the table", Kind::kReals},
};

ResultTable times_by_ranks(const Values& v) {
  ResultTable table{
      "ranks", "All-reduce by number of ranks", {"ranks", "sent by a rank", "time"}, {}};
  for (const double ranks : v.list("table")) {
    require_config(ranks >= 1, "--table has {:g}: give numbers of ranks from 1", ranks);
    table.rows.push_back({Quantity{ranks, kCount},
                          Quantity{ring_all_reduce_bytes(v["bytes"], ranks), kBytes},
                          Quantity{ring_all_reduce_s(v["bytes"], ranks, link_of(v)), kSeconds}});
  }
  return table;
}

void explain_ring(const Values& v, Explanation& e) {
  const double x = v["bytes"], n = v["ranks"];
  const LinkRate link = link_of(v);
  const std::string bytes = v.shown("bytes");
  const double sent = ring_all_reduce_bytes(x, n);
  e.add("steps", "steps", "2 (N-1)", fmt::format("2 * {:g}", n - 1), {2 * (n - 1), kCount});
  e.add("chunk", "sent in a step by a rank", "X / N", fmt::format("{} / {:g}", bytes, n),
        {x / n, kBytes});
  e.add("sent", "sent in all by a rank", "2 (N-1)/N X", ring_numbers(n, bytes), {sent, kBytes});
  e.add("time", "time of an all-reduce", "2 (N-1) a + 2 (N-1)/N X / B",
        fmt::format("{} + {} / {}", text_of(Quantity{2 * (n - 1) * link.latency_s, kSeconds}),
                    text_of(Quantity{sent, kBytes}), v.shown("bandwidth")),
        {ring_all_reduce_s(x, n, link), kSeconds});
  e.add("limit", "its limit for many ranks, without latency", "2 X / B",
        fmt::format("2 * {} / {}", bytes, v.shown("bandwidth")),
        {2 * x / link.bytes_per_s, kSeconds});
  e.add("half_sent", "reduce-scatter or all-gather: sent", "(N-1)/N X",
        fmt::format("{:g}/{:g} * {}", n - 1, n, bytes), {ring_all_gather_bytes(x, n), kBytes});
  e.add("half_time", "reduce-scatter or all-gather: time", "(N-1) a + (N-1)/N X / B", "",
        {ring_all_gather_s(x, n, link), kSeconds});
  e.add("naive", "all through one rank instead: it moves", "2 (N-1) X",
        fmt::format("2 * {:g} * {}", n - 1, bytes), {naive_all_reduce_bytes(x, n), kBytes});
  e.add("once", "the array once over the link", "X / B", "", {x / link.bytes_per_s, kSeconds});
  e.tables.push_back(times_by_ranks(v));
  e.notes = {"A lower bound: kernels, protocols and shared links add to it."};
}

// ---- tree ----

constexpr Parameter kTreeParameters[] = {
    {"bytes", "X", kBytes, "1MB", "the whole array, on every rank"},
    {"ranks", "N", kCount, "64", "ranks", Kind::kWhole},
    kBandwidth,
    {"latency", "a", kSeconds, "10us", "of one message", Kind::kReal, true},
};

void explain_tree(const Values& v, Explanation& e) {
  const double x = v["bytes"], n = v["ranks"];
  const LinkRate link = link_of(v);
  e.add("rounds", "rounds up, and as many down", "log2(N), rounded up", "",
        {static_cast<double>(tree_rounds(v.whole("ranks"))), kCount});
  e.add("tree_time", "all-reduce over a tree", "2 log2(N) a + 2 X / B", "",
        {tree_all_reduce_s(x, n, link), kSeconds});
  e.add("ring_time", "all-reduce over a ring", "2 (N-1) a + 2 (N-1)/N X / B", "",
        {ring_all_reduce_s(x, n, link), kSeconds});
  e.add("crossover", "the tree is faster below", "(N-1 - log2(N)) a N B", "",
        {tree_wins_below(n, link), kBytes});
  e.notes = {
      "The tree cuts the array into pieces that follow each other, so that every link is busy."};
}

// ---- average ----

constexpr Parameter kAverageParameters[] = {
    {"gradients", "g", kNumber, "0.20,0.10,-0.05,0.15", "of one weight, one for each rank",
     Kind::kReals},
    {"lr", "l", kNumber, "0.001", "learning rate"},
};

void explain_average(const Values& v, Explanation& e) {
  double sum = 0;
  std::string terms;
  for (const double g : v.list("gradients")) {
    sum += g;
    terms += fmt::format("{}{:g}", terms.empty() ? "" : " + ", g);
  }
  const auto n = static_cast<double>(v.list("gradients").size());
  e.add("sum", "all-reduce", "g0 + g1 + ...", terms, {sum, kNumber});
  e.add("mean", "gradient on every rank", "sum / N", fmt::format("{:.6g} / {:g}", sum, n),
        {sum / n, kNumber});
  e.add("update", "change of the weight by SGD", "-l mean", "", {-v["lr"] * sum / n, kNumber});
  e.notes = {"Every rank has the same sum, so all copies of the weight stay equal."};
}

// ---- tp ----

constexpr Parameter kTpParameters[] = {
    kModel,
    kBatch,
    kSeq,
    kHidden,
    kLayers,
    {"heads", "H", kCount, "32", "attention heads", Kind::kWhole},
    {"tp", "t", kCount, "8", "ranks that split every matrix", Kind::kWhole},
    kElement,
    {"bandwidth", "B", kBytesPerSecond, "900GB/s", "between the ranks of a node"},
    {"slow", "S", kBytesPerSecond, "50GB/s", "between nodes, to compare"},
};

void explain_tp(const Values& v, Explanation& e) {
  const double t = v["tp"], layers = v["layers"];
  const double payload = v["batch"] * v["seq"] * v["hidden"] * v["element"];
  const double calls = 2 * layers;
  const std::string shown = text_of(Quantity{payload, kBytes});
  require_config(v.whole("heads") % v.whole("tp") == 0, "--tp is {}: it must divide the {} heads",
                 v.whole("tp"), v.whole("heads"));
  e.add("payload", "activations of one all-reduce", "b s h e",
        fmt::format("{:g} * {:g} * {:g} * {:g}", v["batch"], v["seq"], v["hidden"], v["element"]),
        {payload, kBytes});
  e.add("heads_per_rank", "heads of a rank", "H / t", "", {v["heads"] / t, kCount});
  e.add("forward_calls", "all-reduces of a forward pass", "2 L", fmt::format("2 * {:g}", layers),
        {calls, kCount});
  e.add("calls", "all-reduces of forward and backward", "4 L", fmt::format("4 * {:g}", layers),
        {2 * calls, kCount});
  e.add("forward_payload", "all-reduced in a forward pass", "2 L b s h e",
        fmt::format("{:g} * {}", calls, shown), {calls * payload, kBytes});
  e.add("step_payload", "all-reduced forward and backward", "4 L b s h e",
        fmt::format("{:g} * {}", 2 * calls, shown), {2 * calls * payload, kBytes});
  const double sent = ring_all_reduce_bytes(payload, t);
  e.add("sent", "sent by a rank in one of them", "2 (t-1)/t b s h e", ring_numbers(t, shown),
        {sent, kBytes});
  e.add("values_per_layer", "values a rank sends for a layer, over b s h", "4 * 2 (t-1)/t", "",
        {4 * ring_all_reduce_bytes(1, t), kNumber});
  e.add("forward_time", "forward pass, payload over B", "2 L b s h e / B", "",
        {calls * payload / v["bandwidth"], kSeconds});
  e.add("step_time", "forward and backward, payload over B", "4 L b s h e / B", "",
        {2 * calls * payload / v["bandwidth"], kSeconds});
  e.add("ring_time", "forward and backward, over a ring", "4 L * 2 (t-1)/t b s h e / B", "",
        {2 * calls * sent / v["bandwidth"], kSeconds});
  e.add("slow_time", "the same between nodes", "4 L * 2 (t-1)/t b s h e / S", "",
        {2 * calls * sent / v["slow"], kSeconds});
  e.notes = {
      "A matrix that is split by its columns needs no communication in the forward pass; the one "
      "after it, split by its rows, ends in a sum: one all-reduce for attention, one for the MLP. "
      "b and s are of one micro-batch of one replica, never of the whole batch."};
}

// ---- pipeline ----

constexpr Parameter kPipelineParameters[] = {
    kModel,
    {"batch", "b", kCount, "2", "sequences of a micro-batch", Kind::kWhole},
    {"seq", "s", kLength, "2048", "tokens of a sequence", Kind::kWhole},
    kHidden,
    kElement,
    {"layers", "L", kCount, "24", "layers", Kind::kWhole},
    {"ranks", "P", kCount, "4", "pipeline ranks", Kind::kWhole},
    {"micro-batches", "M", kCount, "8", "of a step", Kind::kWhole},
    kBandwidth,
};

void explain_pipeline(const Values& v, Explanation& e) {
  const double boundary = v["batch"] * v["seq"] * v["hidden"] * v["element"];
  e.add("boundary", "activations between two stages", "b s h e",
        fmt::format("{:g} * {:g} * {:g} * {:g}", v["batch"], v["seq"], v["hidden"], v["element"]),
        {boundary, kBytes});
  e.add("time", "time of one message", "b s h e / B", "", {boundary / v["bandwidth"], kSeconds});
  e.add("step", "sent over a boundary in a step, both ways", "2 M b s h e", "",
        {2 * v["micro-batches"] * boundary, kBytes});
  e.add("layers_per_stage", "layers of a stage", "L / P", "", {v["layers"] / v["ranks"], kNumber});
  e.add("weights_share", "of the layers' weights", "1 / P", "", {1 / v["ranks"], kShare});
  e.notes = {"'explain bubble' has the time that stages wait."};
}

// ---- context ----

constexpr Parameter kContextParameters[] = {
    kModel,
    {"seq", "s", kLength, "131072", "tokens of a sequence", Kind::kWhole},
    {"cp", "k", kCount, "16", "ranks that share a sequence", Kind::kWhole},
    kBatch,
    {"kv-heads", "g", kCount, "8", "heads of keys", Kind::kWhole},
    {"head-dim", "d", kCount, "128", "columns of a head", Kind::kWhole},
    {"heads", "a", kCount, "128", "attention heads", Kind::kWhole},
    {"hidden", "h", kCount, "16384", "width of the model", Kind::kWhole},
    kElement,
    {"bandwidth", "B", kBytesPerSecond, "50GB/s", "what a rank sends in one direction"},
};

void explain_context(const Values& v, Explanation& e) {
  const double c = v["cp"];
  const double block = 2 * v["batch"] * v["seq"] / c * v["kv-heads"] * v["head-dim"] * v["element"];
  const double tokens = v["batch"] * v["seq"];
  e.add("tokens", "tokens of a rank", "b s / k", "", {tokens / c, kNumber});
  e.add("steps", "hops of keys and values around the ring", "k - 1", "", {c - 1, kCount});
  e.add("block", "keys and values of one hop", "2 b s/k g d e", "", {block, kBytes});
  e.add("sent", "sent by a rank in a layer's forward", "(k-1) 2 b s/k g d e", "",
        {(c - 1) * block, kBytes});
  e.add("hop_time", "time of a hop", "2 b s/k g d e / B", "", {block / v["bandwidth"], kSeconds});
  e.add("hop_flops", "work of a hop, half of it for a causal mask", "4 b (s/k)^2 a d", "",
        {4 * v["batch"] * (v["seq"] / c) * (v["seq"] / c) * v["heads"] * v["head-dim"], kFlops});
  const BlockShape whole{v["batch"], v["seq"], v["hidden"], v["heads"], 1, 1};
  BlockShape part = whole;
  part.cp = c;
  e.add("activations", "activations of a layer without", "34 s b h", "",
        {block_bytes(whole, Kept::kSelective, false), kBytes});
  e.add("split_activations", "activations of a layer with", "34 s/k b h", "",
        {block_bytes(part, Kept::kSelective, false), kBytes});
  e.notes = {
      "Context parallelism splits the sequence everywhere and passes keys and values around. "
      "Sequence parallelism splits it among tensor-parallel ranks, outside their products only."};
}

}  // namespace

Topic ring_topic() {
  return {"ring", "All-reduce over a ring: what every rank sends, and how long it takes.",
          "--bytes 140GB --ranks 32 --bandwidth 25GB/s", kRingParameters, explain_ring};
}

Topic tree_topic() {
  return {"tree", "A tree against a ring: few messages against few bytes.",
          "--bytes 1MB --ranks 64 --latency 10us", kTreeParameters, explain_tree};
}

Topic average_topic() {
  return {"average", "One weight in a data-parallel step.", "--gradients 0.20,0.10,-0.05,0.15",
          kAverageParameters, explain_average};
}

Topic tp_topic() {
  return {"tp", "What tensor parallelism all-reduces.", "--model llama-3-405b --tp 8 --seq 8192",
          kTpParameters, explain_tp};
}

Topic pipeline_topic() {
  return {"pipeline", "What pipeline stages hand on.", "--batch 2 --seq 2048 --hidden 4096",
          kPipelineParameters, explain_pipeline};
}

Topic context_topic() {
  return {"context", "Keys and values around a ring: context parallelism.",
          "--model llama-3-405b --seq 131072 --cp 16", kContextParameters, explain_context};
}

}  // namespace tessera
