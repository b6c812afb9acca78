// How often a run fails, what that costs, and how often it should save.
#include "cost/formulas/failures.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cost/explain/calculators.h"
#include "cost/formulas/failure_replay.h"

namespace tessera {
namespace {

using enum Unit;
using Kind = Parameter::Kind;

constexpr Parameter kParameters[] = {
    {"devices", "N", kCount, "16384", "devices of the run", Kind::kWhole},
    {"mtbf-device", "m", kSeconds, "50000h", "mean time between failures of one device"},
    {"save", "s", kSeconds, "30s", "how long training stands still in a save"},
    {"write", "w", kSeconds, "0s", "after that, until an asynchronous save is safe", Kind::kReal,
     true},
    {"restart", "r", kSeconds, "5min", "from a failure until training goes on", Kind::kReal, true},
    {"days", "D", kNumber, "30", "days of training if nothing failed"},
    {"every", "", kSeconds, "", "a time between saves to look at, beside the best"},
};

constexpr double kDay = 86'400;
constexpr int kRuns = 32;            // that a simulated figure is the mean of
constexpr double kMostEvents = 2e6;  // of all of them together
constexpr uint64_t kFirstSeed = 0x5AFE;

// The mean of several runs that draw the same failures for every interval. Nothing where there
// would be too many events, or where a run never ends.
std::optional<double> simulated_goodput(const FailureModel& model, double interval, double work) {
  const double share = goodput(model, interval);
  const double events = kRuns * (work / interval + work / std::max(share, 1e-9) / model.mtbf);
  if (!(share > 0.01) || !(events < kMostEvents)) return std::nullopt;
  double useful = 0, total = 0;
  for (int i = 0; i < kRuns; ++i) {
    const FailureReplay replay =
        replay_failures({.model = model, .interval = interval, .work = work},
                        kFirstSeed + static_cast<uint64_t>(i));
    if (!replay.finished) return std::nullopt;
    useful += replay.of(RunPhase::kTrain);
    total += replay.total;
  }
  return useful / total;
}

void add_row(ResultTable& table, const char* name, const FailureModel& model, double interval,
             double work) {
  const double share = goodput(model, interval);
  const std::optional<double> simulated = simulated_goodput(model, interval, work);
  table.rows.push_back(
      {std::string(name), Quantity{interval, kSeconds}, Quantity{share, kShare},
       simulated.has_value() ? Cell(Quantity{*simulated, kShare}) : Cell(std::string("-")),
       share > 0 ? Cell(Quantity{work / share, kSeconds}) : Cell(std::string("never"))});
}

void explain_failures(const Values& v, Explanation& e) {
  const FailureModel model{.mtbf = v["mtbf-device"] / v["devices"],
                           .stall = v["save"],
                           .write = v["write"],
                           .restart = v["restart"]};
  constexpr double kMostDays = 10'000, kLongest = 1e12;
  require_config(v["days"] <= kMostDays, "--days is {:g}: use at most {:g}", v["days"], kMostDays);
  require_config(
      model.stall + model.write + model.restart < kLongest && v["mtbf-device"] < kLongest,
      "use times below 30,000 years");
  const double work = v["days"] * kDay;
  const double best = best_interval(model), share = goodput(model, best);
  e.add("mtbf", "between failures of the run", "m / N", "", {model.mtbf, kSeconds});
  e.add("failures_per_day", "failures a day", "N 24h / m",
        fmt::format("86400 s / {:.4g} s", model.mtbf), {kDay / model.mtbf, kNumber});
  e.add("young", "between saves (Young)", "sqrt(2 s m / N)",
        fmt::format("sqrt(2 * {:.4g} s * {:.4g} s)", model.stall, model.mtbf),
        {young_interval(model), kSeconds});
  e.add("daly", "(Daly)", "", "", {daly_interval(model), kSeconds});
  e.add("best", "with the most goodput", "", "", {best, kSeconds});
  require_config(share > 0.001,
                 "nothing gets done: with a failure every {} and {} to restart, less than a "
                 "thousandth of the time "
                 "is of use; use fewer --devices, a longer --mtbf-device or a shorter --restart",
                 text_of({model.mtbf, kSeconds}), text_of({model.restart, kSeconds}));
  e.add("goodput", "goodput", "best / (M e^((r+w)/M) (e^((best+s)/M) - 1)), M = m / N", "",
        {share, kShare});
  e.add("days", "expected days", "D / goodput", fmt::format("{:g} / {:.4g}", v["days"], share),
        {v["days"] / share, kNumber});
  e.add("restarts", "failures until then", "", "", {work / share / model.mtbf, kNumber});
  ResultTable table{
      "intervals", "By interval", {"saves", "every", "goodput", "simulated", "takes"}, {}};
  add_row(table, "four times as often", model, best / 4, work);
  add_row(table, "twice as often", model, best / 2, work);
  add_row(table, "best", model, best, work);
  add_row(table, "half as often", model, best * 2, work);
  add_row(table, "a quarter as often", model, best * 4, work);
  if (v.has("every")) add_row(table, "asked for", model, v["every"], work);
  e.tables.push_back(std::move(table));
  e.notes = {
      fmt::format("Failures are taken to come at random at a constant rate; \"simulated\" is the "
                  "mean of {} runs, "
                  "played failure by failure.",
                  kRuns)};
}

}  // namespace

Topic failures_topic() {
  return {"failures", "How often a run fails, what it costs, how often to save.",
          "--devices 16384 --mtbf-device 50000h --save 30s --restart 5min", kParameters,
          explain_failures};
}

}  // namespace tessera
