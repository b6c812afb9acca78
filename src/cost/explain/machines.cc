// Clusters, grids of ranks, and why there are such things.
#include "base/error.h"
#include "cost/explain/calculators.h"
#include "cost/explain/parameters.h"
#include "cost/formulas/power.h"

namespace tessera {
namespace {

using enum Unit;
using Kind = Parameter::Kind;

// ---- cluster ----

constexpr Parameter kClusterParameters[] = {
    kDevice,
    {"gpus", "g", kCount, "8", "devices of a server", Kind::kWhole},
    {"servers", "s", kCount, "2", "servers of a rack", Kind::kWhole},
    {"racks", "r", kCount, "192", "racks of a pod", Kind::kWhole},
    {"pods", "p", kCount, "8", "pods of the cluster", Kind::kWhole},
    {"memory", "C", kBytes, "80GB", "memory of a device"},
    {"peak", "R", kFlopsPerSecond, "989TFLOP/s", "of a device"},
    {"hbm", "H", kBytesPerSecond, "3352GB/s", "bandwidth of a device's memory"},
    {"nvlink", "V", kBytesPerSecond, "900GB/s", "of a device inside the server"},
    {"network", "I", kBytesPerSecond, "400Gb/s", "of a device between servers"},
};

void explain_cluster(const Values& v, Explanation& e) {
  const double server = v["gpus"], rack = server * v["servers"], pod = rack * v["racks"];
  const double cluster = pod * v["pods"];
  e.add("devices", "devices", "g s r p",
        fmt::format("{:g} * {:g} * {:g} * {:g}", v["gpus"], v["servers"], v["racks"], v["pods"]),
        {cluster, kNumber});
  e.add("pod_devices", "devices of a pod", "g s r", "", {pod, kNumber});
  e.add("memory", "memory", "g s r p C", "", {cluster * v["memory"], kBytes});
  e.add("peak", "peak", "g s r p R", "", {cluster * v["peak"], kFlopsPerSecond});
  e.add("nvlink_ratio", "inside a server over memory", "V / H", "",
        {v["nvlink"] / v["hbm"], kNumber});
  e.add("network_ratio", "between servers over memory", "I / H", "",
        {v["network"] / v["hbm"], kNumber});
  e.add("cliff", "inside over between servers", "V / I", "", {v["nvlink"] / v["network"], kNumber});
  ResultTable table{"levels", "By level", {"level", "devices", "memory", "peak"}, {}};
  const std::pair<const char*, double> levels[] = {
      {"device", 1}, {"server", server}, {"rack", rack}, {"pod", pod}, {"cluster", cluster}};
  for (const auto& [name, devices] : levels) {
    table.rows.push_back({std::string(name), Quantity{devices, kNumber},
                          Quantity{devices * v["memory"], kBytes},
                          Quantity{devices * v["peak"], kFlopsPerSecond}});
  }
  e.tables.push_back(std::move(table));
  e.notes = {"NVLink's 900 GB/s are both directions together; 400Gb/s are bits: 50 GB/s."};
}

// ---- grid ----

constexpr Parameter kGridParameters[] = {
    {"tp", "t", kCount, "8", "tensor-parallel ranks", Kind::kWhole},
    {"cp", "c", kCount, "1", "context-parallel ranks", Kind::kWhole},
    {"pp", "p", kCount, "16", "pipeline ranks", Kind::kWhole},
    {"dp", "d", kCount, "", "data-parallel replicas", Kind::kWhole},
    {"devices", "N", kCount, "24576", "devices, where dp is not given", Kind::kWhole},
    {"layers", "L", kCount, "126", "layers", Kind::kWhole},
    {"node", "g", kCount, "8", "devices of a node", Kind::kWhole},
    {"rank", "r", kCount, "0", "a rank to find", Kind::kWhole, true},
};

void explain_grid(const Values& v, Explanation& e) {
  const double t = v["tp"], c = v["cp"], p = v["pp"];
  const double each = t * c * p;
  const double d = v.has("dp") ? v["dp"] : v["devices"] / each;
  require_config(d >= 1 && d * each <= 1e15 && d == static_cast<double>(static_cast<int64_t>(d)),
                 "tp * cp * pp = {:g} does not divide --devices {:g}; give --dp, or another number",
                 each, v["devices"]);
  const double ranks = d * each, rank = v["rank"];
  require_config(rank < ranks, "--rank is {:g}: there are {:g} ranks, from 0", rank, ranks);
  e.add("ranks", "ranks", "t c p d", fmt::format("{:g} * {:g} * {:g} * {:g}", t, c, p, d),
        {ranks, kNumber});
  e.add("dp", "replicas", "N / (t c p)", "", {d, kNumber});
  e.add("layers_per_stage", "layers of a stage", "L / p", "", {v["layers"] / p, kNumber});
  const auto at = static_cast<int64_t>(rank);
  const auto ti = static_cast<int64_t>(t), ci = static_cast<int64_t>(c),
             di = static_cast<int64_t>(d);
  e.add("rank_tp", "the rank's place in tp", "r mod t", "",
        {static_cast<double>(at % ti), kNumber});
  e.add("rank_cp", "in cp", "r / t mod c", "", {static_cast<double>(at / ti % ci), kNumber});
  e.add("rank_dp", "in dp", "r / (t c) mod d", "",
        {static_cast<double>(at / ti / ci % di), kNumber});
  e.add("rank_pp", "in pp", "r / (t c d)", "", {static_cast<double>(at / ti / ci / di), kNumber});
  e.notes = {t <= v["node"] ? "tp stays inside a node."
                            : "tp leaves the node: every layer then waits for the network."};
}

// ---- scaling ----

constexpr Parameter kScalingParameters[] = {
    {"years", "y", kNumber, "5", "years to look at"},
    {"model-growth", "m", kNumber, "10", "times as many parameters in a year"},
    {"device-growth", "d", kNumber, "2", "times as much memory in a period"},
    {"device-period", "q", kNumber, "2.5", "years of that period"},
};

void explain_scaling(const Values& v, Explanation& e) {
  constexpr double kMostYears = 100, kMostGrowth = 1000;
  require_config(v["years"] <= kMostYears && v["model-growth"] <= kMostGrowth &&
                     v["device-growth"] <= kMostGrowth && v["device-period"] >= 0.1,
                 "use at most {} years, growth of at most {} and periods of at least 0.1 years",
                 kMostYears, kMostGrowth);
  const auto models = [&](double years) { return power(v["model-growth"], years); };
  const auto devices = [&](double years) {
    return power(v["device-growth"], years / v["device-period"]);
  };
  const double years = v["years"];
  e.add("models", "models grow", "m^y", "", {models(years), kNumber});
  e.add("devices", "devices grow", "d^(y/q)", "", {devices(years), kNumber});
  e.add("device_year", "devices grow in one year", "d^(1/q)", "", {devices(1), kNumber});
  e.add("gap", "devices that a model needs more", "m^y / d^(y/q)", "",
        {models(years) / devices(years), kNumber});
  ResultTable table{"years", "By year", {"year", "models", "devices", "gap"}, {}};
  for (double year = 0; year <= years && year <= 20; year += 1) {
    table.rows.push_back({Quantity{year, kNumber}, Quantity{models(year), kNumber},
                          Quantity{devices(year), kNumber},
                          Quantity{models(year) / devices(year), kNumber}});
  }
  e.tables.push_back(std::move(table));
  e.notes = {
      "Parameters of the largest language models grew about tenfold in a year from 2018 to 2021 "
      "(GPT "
      "0.117B, GPT-2 1.5B, GPT-3 175B); since then they grew more slowly than their training "
      "data."};
}

}  // namespace

Topic cluster_topic() {
  return {"cluster", "What a cluster has in all, and how its bandwidths step down.",
          "--gpus 8 --servers 2 --racks 192 --pods 8", kClusterParameters, explain_cluster};
}

Topic grid_topic() {
  return {"grid", "Ranks as a grid of parallelisms.", "--tp 8 --pp 16 --devices 24576",
          kGridParameters, explain_grid};
}

Topic scaling_topic() {
  return {"scaling", "Models that grow faster than devices.", "--years 5", kScalingParameters,
          explain_scaling};
}

}  // namespace tessera
