#include <algorithm>

#include "launch/agent/rank_generation.h"
#include "launch/agent/stacks/rank_stacks.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

// How often to look whether there may be more ranks.
constexpr milliseconds kLookForRoom{50};

}  // namespace

// Until the job ends for another reason: those that end in order may take their time.
void RankGeneration::look_at_ranks() {
  if (first_failed_ || stop_signal_ != 0 || give_up_at_) {
    look_at_.reset();
    return;
  }
  const Clock::time_point now = Clock::now();
  look_at_ = now + options_.watch.tick();
  if (options_.part.overseer != nullptr) return options_.part.overseer->tell(what_is_seen());
  if (options_.resize.grow) look_at_ = std::min(*look_at_, now + kLookForRoom);
  std::vector<RankSight> sights;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    sights.push_back({.running = ranks_.running(rank),
                      .stopped = ranks_.stopped(rank),
                      .progress = memory_.progress(rank)});
  }
  for (const WatchFinding& finding : watch_.look(now, sights)) act_on(finding);
  if (options_.resize.grow) look_for_room();
}

// The ranks are stopped as somebody else would stop them: after the step at hand, with a save.
void RankGeneration::look_for_room() {
  const int room = options_.resize.grow(options_.ranks, memory_.run_state(), asked_to_grow_);
  if (room > options_.ranks) make_room(room);
}

void RankGeneration::make_room(int ranks) {
  growing_to_ = ranks;
  begin_stop(SIGUSR2);
}

HostSight RankGeneration::what_is_seen() const {
  HostSight seen{.run = memory_.run_state()};
  const int first = options_.part.first_rank;
  for (int rank = first; rank < first + options_.ranks_here(); ++rank) {
    seen.ranks.push_back({.running = ranks_.running(rank),
                          .stopped = ranks_.stopped(rank),
                          .progress = memory_.progress(rank)});
    seen.pids.push_back(ranks_.pid(rank));
  }
  seen.run.section = seen.ranks.front().progress.section;
  seen.run.step = seen.ranks.front().progress.step;
  return seen;
}

void RankGeneration::take_orders() {
  if (options_.part.overseer == nullptr) return;
  while (const std::optional<RankCommand> order = options_.part.overseer->take()) obey(*order);
}

// As long as the ranks are neither failing nor ending already.
void RankGeneration::obey(const RankCommand& order) {
  if (first_failed_ || stop_signal_ != 0 || give_up_at_) return;
  switch (order.kind) {
    case RankCommand::Kind::kSayWhere: {
      RankStacks stacks = ask_for_stacks(memory_, running_pids());
      return options_.part.overseer->tell(HostWhereabouts{
          .ranks = what_ranks_do(), .at = std::move(stacks.at), .stacks = std::move(stacks.text)});
    }
    case RankCommand::Kind::kKill:
      if (!options_.is_here(order.rank)) return;
      return condemn({.verdict = order.verdict, .rank = order.rank, .seconds = order.seconds});
    case RankCommand::Kind::kMakeRoom:
      return make_room(options_.ranks);
  }
}

// A run that was at its end needs no more ranks.
void RankGeneration::end_growth() {
  const auto done = [&](int rank) {
    const std::optional<ChildExit>& exit = ranks_.exit_of(rank);
    return exit && !exit->failed();
  };
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (growing_to_ == 0 || !done(rank)) return;
  }
  growing_to_ = 0;
  stop_signal_ = 0;
}

void RankGeneration::act_on(const WatchFinding& finding) {
  using Kind = WatchFinding::Kind;
  const RankProgress progress = memory_.progress(finding.rank);
  const bool hung = finding.kind == Kind::kHung;
  RankTrouble trouble{.verdict = hung ? Verdict::kHung : Verdict::kStopped,
                      .generation = generation_,
                      .rank = finding.rank,
                      .pid = ranks_.pid(finding.rank),
                      .seconds = std::chrono::duration<double>(finding.time).count(),
                      .section = progress.section,
                      .step = progress.step,
                      .over = finding.kind == Kind::kGoesOn};
  if (hung) {
    trouble.ranks = what_ranks_do();
    RankStacks stacks = ask_for_stacks(memory_, running_pids());
    trouble.at = stacks.at[static_cast<size_t>(finding.rank)];
    trouble.stacks = std::move(stacks.text);
  }
  const bool told = finding.kind != Kind::kStoppedTooLong;  // it was, when it was found stopped
  if (told && options_.on_trouble) options_.on_trouble(trouble, memory_.run_state());
  if (!hung && finding.kind != Kind::kStoppedTooLong) return;
  condemn(trouble);
}

void RankGeneration::condemn(const RankTrouble& trouble) {
  condemned_[static_cast<size_t>(trouble.rank)] = trouble;
  ranks_.kill_child(trouble.rank);
}

std::vector<std::string> RankGeneration::what_ranks_do() const {
  std::vector<std::string> texts;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (!options_.is_here(rank)) continue;
    const ShmRankStatus status = memory_.status(rank);
    const std::string call = status.last_call.empty() ? "no collective yet" : status.last_call;
    const int peer = status.progress.waits_for;
    const std::string waits = peer < 0 ? fmt::format("rank {} waits for nobody", rank)
                                       : fmt::format("rank {} waits for rank {}", rank, peer);
    texts.push_back(fmt::format("{}; last {}{}{}", waits, call, status.work.empty() ? "" : "; at ",
                                fmt::join(status.work, ", ")));
  }
  return texts;
}

std::vector<pid_t> RankGeneration::running_pids() const {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const pid_t pid = ranks_.running(rank) ? ranks_.pid(rank) : 0;
    pids.push_back(options_.is_here(rank) ? pid : kNotHere);
  }
  return pids;
}

}  // namespace tessera
