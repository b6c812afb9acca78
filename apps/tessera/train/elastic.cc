#include "train/elastic.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr std::string_view kVariable = "TESSERA_RUN_DP";

int64_t number_of(std::string_view text, const std::string& whole) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require_config(error == std::errc() && end == text.data() + text.size() && number >= 0,
                 "--elastic {}: '{}' is no whole number; use --elastic min=2,max=8", whole, text);
  return number;
}

}  // namespace

ElasticBounds parse_elastic(const std::string& text) {
  ElasticBounds bounds;
  if (text.empty()) return bounds;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view key = part.substr(0, equals);
    int64_t* const target = key == "min"    ? &bounds.least
                            : key == "max"  ? &bounds.most
                            : key == "grow" ? &bounds.grow_after
                                            : nullptr;
    require_config(target != nullptr && equals < part.size(),
                   "--elastic {}: '{}' is none of min=N, max=N and grow=STEPS; use --elastic "
                   "min=2,max=8",
                   text, part);
    *target = number_of(part.substr(equals + 1), text);
  }
  require_config(
      bounds.least >= 1 && bounds.least <= bounds.most,
      "--elastic {}: min and max are numbers of replicas (dp), from 1 on and min at most "
      "max; use --elastic min=2,max=8",
      text);
  return bounds;
}

void require_elastic(const std::string& text, int64_t restarts, const RunSpec& spec,
                     RankMode mode) {
  const ElasticBounds bounds = parse_elastic(text);
  if (!bounds.on()) return;
  require_config(restarts > 0,
                 "--elastic {}: the number of replicas changes when ranks start again: add "
                 "--restarts 3",
                 text);
  const int64_t dp = spec.parallel.dp;
  require_config(mode == RankMode::kAgentRank || (dp >= bounds.least && dp <= bounds.most),
                 "--elastic {}: the run begins with dp = {}, which is not between them; use "
                 "another dp, or other bounds",
                 text, dp);
  const int64_t groups = spec.train.redundancy;
  require_config(bounds.least % groups == 0 && bounds.most % groups == 0,
                 "--elastic {}: with train.redundancy = {} there are two equal groups; use even "
                 "numbers",
                 text, groups);
  require_config(spec.train.lanes >= bounds.most / groups * spec.parallel.fsdp,
                 "--elastic {}: train.lanes = {}, but with fewer lanes than replicas (max * fsdp = "
                 "{}) a change of their number would change the bits; set train.lanes to a power "
                 "of two that is no less",
                 text, spec.train.lanes, bounds.most / groups * spec.parallel.fsdp);
  require_config(spec.checkpoint.on(),
                 "--elastic {}: ranks in another number go on from a checkpoint, and [checkpoint] "
                 "every is 0; set it",
                 text);
}

bool hear_replicas(const Environment& environment, RunSpec& spec) {
  const auto told = environment.find(kVariable);
  if (told == environment.end()) return false;
  spec.parallel.dp = number_of(told->second, told->second);
  resolve(spec);
  return true;
}

std::vector<int> host_sizes(const ElasticBounds& bounds, const RunSpec& spec, int hosts) {
  const int64_t ranks_of_replica = spec.parallel.world() / spec.parallel.dp;
  const int64_t ranks_of_host = spec.parallel.world() / hosts;
  std::vector<int> sizes;
  for (int64_t size = 1; size * ranks_of_host <= bounds.most * ranks_of_replica; ++size) {
    const int64_t ranks = size * ranks_of_host;
    const int64_t replicas = ranks / ranks_of_replica;
    const bool whole = ranks % ranks_of_replica == 0 && replicas % spec.train.redundancy == 0;
    if (whole && replicas >= bounds.least) sizes.push_back(static_cast<int>(size));
  }
  require_config(sizes.size() > 1,
                 "--elastic min={},max={}: replicas come and go with whole hosts of {} each, and a "
                 "replica has {}: no other number of hosts than {} lies between them",
                 bounds.least, bounds.most, count_of(ranks_of_host, "rank"), ranks_of_replica,
                 hosts);
  return sizes;
}

ElasticRun::ElasticRun(const ElasticBounds& bounds, const RunSpec& spec)
    : bounds_(bounds),
      ranks_of_replica_(spec.parallel.world() / spec.parallel.dp),
      groups_(spec.train.redundancy),
      inner_ranks_(ranks_of_replica_ / spec.parallel.pp),
      ranks_(spec.parallel.world()) {}

// Rank numbers run over pp, then dp, then the other axes.
int64_t ElasticRun::replica_of(int rank, int64_t replicas) const {
  return rank / inner_ranks_ % replicas;
}

int ElasticRun::without(int ranks, const std::vector<int>& lost) const {
  const int64_t replicas = ranks / ranks_of_replica_;
  std::set<int64_t> gone;
  for (const int rank : lost) gone.insert(replica_of(rank, replicas));
  const int64_t left = replicas - static_cast<int64_t>(gone.size());
  const int64_t equal_groups = left / groups_ * groups_;
  return static_cast<int>(std::max(equal_groups, bounds_.least) * ranks_of_replica_);
}

int ElasticRun::room(int ranks, const RunState& run, bool asked) {
  const auto most = static_cast<int>(bounds_.most * ranks_of_replica_);
  const bool goes_on = run.section == RunSection::kStep && run.steps_done > 0;
  if (ranks >= most || !goes_on) return ranks;
  if (first_step_ < 0) first_step_ = run.steps_done;
  const bool rested = bounds_.grow_after > 0 && run.steps_done - first_step_ >= bounds_.grow_after;
  if (!asked && !rested) return ranks;
  why_ = asked ? "SIGUSR2" : count_of(bounds_.grow_after, "good step");
  return most;
}

void ElasticRun::begin_generation(Environment& environment) {
  first_step_ = -1;
  environment.insert_or_assign(std::string(kVariable), std::to_string(ranks_ / ranks_of_replica_));
}

}  // namespace tessera
