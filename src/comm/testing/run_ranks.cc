#include "comm/testing/run_ranks.h"

#include <thread>

#include "base/error.h"
#include "comm/local/local_world.h"
#include "comm/shm/shm_world.h"
#include "comm/testing/forked_ranks.h"

namespace tessera::testing {
namespace {

constexpr std::string_view kReport = "report: ";

std::string run_body(CommWorld& world, const RankBody& body) {
  try {
    return body(world);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    world.abort(fmt::format("rank {} failed: {}", world.rank(), error.what()));
    throw;
  }
}

}  // namespace

std::vector<RankOutcome> run_as_threads(const RunOptions& options, const RankBody& body) {
  LocalWorld world({.size = options.ranks, .timeout = options.timeout, .device = options.device});
  std::vector<RankOutcome> outcomes(static_cast<size_t>(options.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
      try {
        outcome.report = run_body(world.endpoint(rank), body);
      } catch (const std::exception& error) {
        outcome.error = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::vector<RankOutcome> run_as_processes(const RunOptions& options, const RankBody& body) {
  const ShmMemory memory = ShmMemory::create({.ranks = options.ranks});
  ForkedRanks ranks(options.ranks, [&](int rank, const RankVoice& voice) {
    const std::unique_ptr<CommWorld> world =
        attach_shm_world({.fd = memory.fd(), .rank = rank, .timeout = options.timeout});
    voice.say(std::string(kReport) + run_body(*world, body));
  });
  std::vector<RankOutcome> outcomes;
  for (const RankEnd& end : ranks.finish(options.timeout + std::chrono::seconds(40))) {
    RankOutcome outcome;
    outcome.error = end.error();
    if (end.hung) outcome.error += "(hung)";
    if (end.signal != 0) outcome.error += fmt::format("(ended by signal {})", end.signal);
    for (const RankLine& line : end.lines) {
      if (line.text.starts_with(kReport)) outcome.report = line.text.substr(kReport.size());
    }
    outcomes.push_back(outcome);
  }
  return outcomes;
}

std::string errors_of(const std::vector<RankOutcome>& outcomes) {
  std::string text;
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].error.empty()) continue;
    text += fmt::format("rank {}: {}\n", rank, outcomes[rank].error);
  }
  return text;
}

}  // namespace tessera::testing
