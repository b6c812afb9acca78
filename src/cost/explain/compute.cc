// FLOPs, how long they take, what they cost, and what keeps a device from its peak.
#include <array>
#include <concepts>

#include "base/error.h"
#include "cost/explain/calculators.h"
#include "cost/explain/parameters.h"

namespace tessera {
namespace {

using enum Unit;
using Kind = Parameter::Kind;

constexpr double kDay = 86400;

// The parameters of a training run, and what a topic asks beside them.
template <std::same_as<Parameter>... More>
constexpr auto run_parameters(const More&... more) {
  return std::array{
      kModel,
      kDevice,
      Parameter{"params", "P", kCount, "405B", "parameters"},
      Parameter{"active", "A", kCount, "", "parameters that a token meets (models with experts)"},
      Parameter{"tokens", "D", kCount, "15T", "tokens of the training run"},
      Parameter{"devices", "N", kCount, "24576", "devices", Kind::kWhole},
      Parameter{"peak", "R", kFlopsPerSecond, "989TFLOP/s", "of a device"},
      Parameter{"mfu", "u", kShare, "40%", "model FLOPs utilization"},
      more...,
  };
}

constexpr auto kFlopsParameters = run_parameters(
    Parameter{"achieved", "r", kFlopsPerSecond, "",
              "what a device achieves: gives its utilization"},
    Parameter{"days", "T", kNumber, "", "days that a run took: gives its utilization"});

double training_flops(const Values& v) {
  return 6 * (v.has("active") ? v["active"] : v["params"]) * v["tokens"];
}

void add_run(const Values& v, Explanation& e) {
  const double flops = training_flops(v);
  const std::string formula = v.has("active") ? "6 A D" : "6 P D";
  e.add("flops", "FLOPs of the run", formula, "", {flops, kFlops});
  e.add("one_device", "on one device at its peak", formula + " / R", "",
        {flops / v["peak"], kSeconds});
  const double at_peak = flops / v["peak"] / v["devices"];
  e.add("at_peak", "on all devices at their peak", formula + " / (N R)", "", {at_peak, kSeconds});
  e.add("time", "at the given utilization", formula + " / (N R u)", "",
        {at_peak / v["mfu"], kSeconds});
}

void explain_flops(const Values& v, Explanation& e) {
  add_run(v, e);
  const double at_peak = e.value("at_peak");
  e.add("days", "in days", "", "", {at_peak / v["mfu"] / kDay, kNumber});
  e.add("device_days", "device-days at the peak", "FLOPs / R", "",
        {training_flops(v) / v["peak"] / kDay, kCount});
  e.add("cluster_peak", "peak of all devices", "N R", "",
        {v["devices"] * v["peak"], kFlopsPerSecond});
  if (v.has("achieved")) {
    e.add("achieved_mfu", "utilization of what is achieved", "r / R",
          fmt::format("{} / {}", v.shown("achieved"), v.shown("peak")),
          {v["achieved"] / v["peak"], kShare});
  }
  if (v.has("days")) {
    e.add("days_mfu", "utilization of a run of T days", "FLOPs / (N R T)", "",
          {at_peak / (v["days"] * kDay), kShare});
  }
  e.notes = {
      "6 P D: 2 FLOPs for every weight and token forward, 4 backward; attention's products of "
      "pairs "
      "of tokens come on top. 'tessera bench step' and 'plan' count those too."};
}

// ---- cost ----

constexpr auto kCostParameters =
    run_parameters(Parameter{"price", "c", kDollars, "3",
                             "of a device-hour, in dollars; with --device what its clusters say"},
                   Parameter{"watts", "w", kNumber, "", "of a device with its share of the rest"});

void explain_cost(const Values& v, Explanation& e) {
  add_run(v, e);
  const double hours = e.value("time") / 3600 * v["devices"];
  e.add("device_hours", "device-hours", "N hours", "", {hours, kCount});
  e.add("price", "price", "c N hours",
        fmt::format("{} * {}", v.shown("price"), text_of(Quantity{hours, kCount})),
        {v["price"] * hours, kDollars});
  e.add("per_tokens", "price of a billion tokens", "", "",
        {v["price"] * hours / (v["tokens"] / 1e9), kDollars});
  if (v.has("watts")) {
    e.add("energy_mwh", "energy in MWh", "w N hours", "", {v["watts"] * hours / 1e6, kNumber});
  }
  e.notes = {"Price and utilization are guesses of yours; failures and idle days come on top."};
}

// ---- roofline ----

constexpr Parameter kRooflineParameters[] = {
    kDevice,
    {"m", "m", kCount, "4096", "rows of the product", Kind::kWhole},
    {"n", "n", kCount, "4096", "columns of the product", Kind::kWhole},
    {"k", "k", kCount, "4096", "inner size of the product", Kind::kWhole},
    kElement,
    {"peak", "R", kFlopsPerSecond, "989TFLOP/s", "of the device"},
    {"hbm", "B", kBytesPerSecond, "3352GB/s", "bandwidth of its memory"},
};

void add_roof(const Values& v, const std::string& key, const std::string& what, double intensity,
              Explanation& e) {
  const double attainable = intensity * v["hbm"];
  e.add(key, what, "min(R, B * intensity)", "",
        {attainable < v["peak"] ? attainable : v["peak"], kFlopsPerSecond});
}

void explain_roofline(const Values& v, Explanation& e) {
  const double m = v["m"], n = v["n"], k = v["k"], element = v["element"];
  const double flops = 2 * m * n * k;
  const double loads = (m * k + k * n) * element;
  const double all = loads + m * n * element;
  e.add("ridge", "where memory and arithmetic take equally long", "R / B",
        fmt::format("{} / {}", v.shown("peak"), v.shown("hbm")),
        {v["peak"] / v["hbm"], kFlopsPerByte});
  e.add("flops", "FLOPs of the product", "2 m n k", fmt::format("2 * {:g} * {:g} * {:g}", m, n, k),
        {flops, kFlops});
  e.add("loads", "bytes of its inputs", "(m k + k n) e", "", {loads, kBytes});
  e.add("load_intensity", "intensity, inputs only", "2 m n k / ((m k + k n) e)", "",
        {flops / loads, kFlopsPerByte});
  e.add("intensity", "intensity, result too", "2 m n k / ((m k + k n + m n) e)", "",
        {flops / all, kFlopsPerByte});
  e.add("compute_time", "time of its arithmetic", "2 m n k / R", "", {flops / v["peak"], kSeconds});
  e.add("memory_time", "time of its bytes", "bytes / B", "", {all / v["hbm"], kSeconds});
  add_roof(v, "attainable", "attainable", flops / all, e);
  e.add("relu_load_intensity", "ReLU: intensity, inputs only", "1 / e", "",
        {1 / element, kFlopsPerByte});
  e.add("relu_intensity", "ReLU: intensity, result too", "1 / (2 e)", "",
        {1 / (2 * element), kFlopsPerByte});
  add_roof(v, "relu_attainable", "ReLU: attainable", 1 / (2 * element), e);
  const bool bound_by_memory = flops / all < v["peak"] / v["hbm"];
  e.notes = {bound_by_memory ? "The product is bound by memory."
                             : "The product is bound by arithmetic."};
}

}  // namespace

Topic flops_topic() {
  return {"flops", "How much arithmetic a training run is, and how long it takes.",
          "--params 405B --tokens 15T --devices 24576", kFlopsParameters, explain_flops};
}

Topic cost_topic() {
  return {"cost", "Device-hours and price of a training run.",
          "--model llama-3-405b --tokens 15T --devices 16384 --price 3", kCostParameters,
          explain_cost};
}

Topic roofline_topic() {
  return {"roofline", "Arithmetic against memory bandwidth.", "--m 4096 --n 4096 --k 4096",
          kRooflineParameters, explain_roofline};
}

}  // namespace tessera
