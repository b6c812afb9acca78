#include "search/deadline.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "search/simulated_strategy.h"

namespace tessera {
namespace {

constexpr double kSecondsPerDay = 86400;
constexpr int64_t kKept = 64;  // plans of a count that are simulated
constexpr int kMostSearches = 20;
// A step that twice the devices shorten by less than this will not be short enough with more.
constexpr double kLeastGain = 0.98;

class DeadlineSearch {
 public:
  DeadlineSearch(const SearchRequest& request, const DeadlineQuestion& question,
                 const OnProgress& progress)
      : request_(request), progress_(progress) {
    answer_.question = question;
    request_.budget = &budget_;
    request_.keep = kKept;
    request_.pareto = false;
    request_.objective = Objective::kTime;
  }

  DeadlineAnswer run() {
    const int64_t unit = std::max<int64_t>(1, request_.workload.cluster.node_devices());
    int64_t devices = first_count(unit);
    // More than the batch has work for, or than divide it.
    while (step_of(devices) == 0 && devices > answer_.question.devices) devices /= 2;
    if (is_in_time(devices)) {
      while (devices > 1 && is_in_time(devices / 2)) devices /= 2;
    } else {
      double before = 0;
      do {
        before = step_of(devices);
        devices *= 2;
      } while (devices <= answer_.question.most_devices && !is_in_time(devices) &&
               may_help(before, devices));
    }
    const bool found = devices <= answer_.question.most_devices && is_in_time(devices);
    answer_.devices = found ? fewest_between(devices / 2, devices) : 0;
    std::sort(answer_.tried.begin(), answer_.tried.end(),
              [](const TriedCount& a, const TriedCount& b) { return a.devices < b.devices; });
    return std::move(answer_);
  }

 private:
  // As many as would do if steps got shorter as devices get more, from the cluster that was named;
  // a power of two of nodes, or of devices of one.
  int64_t first_count(int64_t unit) {
    const TriedCount named = tried(std::max(unit, answer_.question.devices));
    int64_t count = 1;
    double wanted = static_cast<double>(named.devices);
    if (named.step_s > 0) wanted *= named.days / answer_.question.days;
    while (count * 2 <= unit && static_cast<double>(count) < wanted) count *= 2;
    if (static_cast<double>(count) < wanted) count = unit;
    const int64_t most = answer_.question.most_devices;
    while (static_cast<double>(count) < wanted && count <= most / 2) count *= 2;
    return count;
  }

  // Quarters of the way from what is too slow to what is not.
  int64_t fewest_between(int64_t low, int64_t high) {
    const int64_t unit = request_.workload.cluster.node_devices();
    for (const int64_t quarters : {1, 2, 3}) {
      const int64_t devices = low + (high - low) * quarters / 4;
      if (devices <= low || devices >= high) continue;
      if (devices > unit && devices % unit != 0) continue;
      if (is_in_time(devices)) return devices;
    }
    return high;
  }

  double step_of(int64_t devices) { return tried(devices).step_s; }
  bool is_in_time(int64_t devices) { return answer_.is_met_by(tried(devices)); }

  // Whether still more may be faster.
  bool may_help(double before, int64_t devices) {
    const double now = step_of(devices);
    if (std::ssize(answer_.tried) >= kMostSearches) return false;
    const bool hopeless = before > 0 && (now == 0 || now > kLeastGain * before);
    return !hopeless && !stopped_;
  }

  TriedCount tried(int64_t devices) {
    const auto known =
        std::find_if(answer_.tried.begin(), answer_.tried.end(),
                     [&](const TriedCount& count) { return count.devices == devices; });
    if (known != answer_.tried.end()) return *known;
    answer_.tried.push_back(searched(devices));
    return answer_.tried.back();
  }

  TriedCount searched(int64_t devices) {
    TriedCount count;
    count.devices = devices;
    if (std::ssize(answer_.tried) >= kMostSearches || stopped_) {
      count.lacks = "was not tried";
      return count;
    }
    try {
      SearchRequest request = request_;
      request.workload.cluster = answer_.question.cluster_of(devices);
      const SearchOutcome outcome = search_strategies(request, progress_);
      stopped_ = stopped_ || outcome.stopped;
      answer_.out_of_budget = answer_.out_of_budget || outcome.out_of_budget;
      std::vector<Strategy> strategies;
      for (const Candidate& candidate : outcome.best) strategies.push_back(candidate.strategy);
      for (const SimulatedStrategy& plan :
           simulate_strategies(request.workload, request.fixed, strategies,
                               usable_bytes(request.workload.cluster), request.threads)) {
        if (count.step_s == 0 || plan.step_s() < count.step_s) count.step_s = plan.step_s();
      }
      if (count.step_s == 0) {
        count.lacks = "nothing fits";
        return count;
      }
      return count_of(request.workload, answer_.question, count.step_s);
    } catch (const ConfigError& error) {
      count.lacks = error.what();
      return count;
    }
  }

  SearchRequest request_;
  const OnProgress& progress_;
  SearchBudget budget_;
  DeadlineAnswer answer_;
  bool stopped_ = false;
};

}  // namespace

const TriedCount* DeadlineAnswer::below() const {
  const TriedCount* most = nullptr;
  for (const TriedCount& count : tried) {
    if (count.devices < devices && !is_met_by(count)) most = &count;
  }
  return most;
}

TriedCount count_of(const Workload& w, const DeadlineQuestion& question, double step_s) {
  TriedCount count;
  count.devices = w.cluster.devices;
  count.step_s = step_s;
  const double tokens_of_step =
      static_cast<double>(w.global_batch) * static_cast<double>(w.seq_len);
  const double seconds = static_cast<double>(question.tokens) / tokens_of_step * step_s;
  count.days = seconds / kSecondsPerDay;
  count.usd =
      seconds / 3600 * static_cast<double>(w.cluster.devices) * w.cluster.usd_per_device_hour.value;
  return count;
}

DeadlineAnswer search_deadline(const SearchRequest& request, const DeadlineQuestion& question,
                               const OnProgress& progress) {
  return DeadlineSearch(request, question, progress).run();
}

}  // namespace tessera
