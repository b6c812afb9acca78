#include "serve/replicas/restarting_generator.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "serve/testing/fake_generator.h"

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool soon(const std::function<bool()>& what) {
  const auto until = Clock::now() + milliseconds(20'000);
  while (!what()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

// Generators that the test can end, one after the other.
struct Makers {
  RestartOptions options(int restarts) {
    return {
        .restarts = restarts,
        .make = [this](const RestartOptions::Generation& generation) -> std::unique_ptr<Generator> {
          const std::scoped_lock lock(mutex);
          for (const auto& state : states) EXPECT_TRUE(state->destroyed()) << "two at once";
          generations.push_back(generation);
          if (failure) throw Error(failure->what(), failure->code());
          states.push_back(std::make_shared<FakeState>());
          return std::make_unique<FakeGenerator>(states.back());
        },
        .say =
            [this](const std::string& text) {
              const std::scoped_lock lock(mutex);
              said += text + "\n";
            }};
  }
  size_t made() {
    const std::scoped_lock lock(mutex);
    return states.size();
  }
  FakeState& newest() {
    const std::scoped_lock lock(mutex);
    return *states.back();
  }
  std::mutex mutex;
  std::vector<std::shared_ptr<FakeState>> states;
  std::vector<RestartOptions::Generation> generations;
  std::optional<Error> failure;
  std::string said;
};

TEST(RestartingGeneratorTest, RequestsAreToldAndTheNextGeneratorAnswers) {
  Makers makers;
  RestartingGenerator generator(makers.options(1));
  const auto listener = std::make_shared<NotingListener>();
  const Submission first = generator.submit(request_of({1}), listener);
  ASSERT_EQ(first.refused, Refused::kNo);
  makers.newest().die("rank 1 was lost");
  EXPECT_EQ(listener->last, FinishReason::kFailed);
  EXPECT_EQ(listener->why, "rank 1 was lost");
  EXPECT_EQ(listener->ended, 1);
  ASSERT_TRUE(soon([&] { return makers.made() == 2; }));
  ASSERT_TRUE(soon([&] { return generator.last_seen_alive() > Clock::time_point::min(); }));
  EXPECT_EQ(generator.failure(), "");
  EXPECT_EQ(generator.restarts(), 1);
  const auto second = std::make_shared<NotingListener>();
  const Submission again = generator.submit(request_of({2}), second);
  EXPECT_EQ(again.refused, Refused::kNo);
  EXPECT_NE(again.id, first.id);
  generator.cancel(first.id);
  EXPECT_TRUE(makers.newest().cancelled().empty()) << "its number is that of the new request";
  generator.cancel(again.id);
  EXPECT_EQ(makers.newest().cancelled().size(), 1U);
  const std::scoped_lock lock(makers.mutex);
  EXPECT_NE(makers.said.find("rank 1 was lost: starts again, 0 restarts left"), std::string::npos)
      << makers.said;
}

TEST(RestartingGeneratorTest, OutOfRestartsItSaysSoAndAsksToBeStartedAgain) {
  Makers makers;
  RestartingGenerator generator(makers.options(2));
  for (size_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(soon([&] { return makers.made() == i; }));
    makers.newest().die("lost");
  }
  ASSERT_TRUE(soon([&] { return !generator.failure().empty(); }));
  ASSERT_TRUE(generator.gave_up());
  EXPECT_EQ(generator.gave_up()->code, ExitCode::kRequeue);
  EXPECT_EQ(generator.failure(), "lost; started again 2 times before");
  EXPECT_EQ(makers.made(), 3U);
  const Submission after = generator.submit(request_of({1}), std::make_shared<NotingListener>());
  EXPECT_EQ(after.refused, Refused::kDead);
  EXPECT_FALSE(generator.drain(milliseconds(1)));
}

TEST(RestartingGeneratorTest, WithoutRestartsTheFirstLossIsTheEnd) {
  Makers makers;
  RestartingGenerator generator(makers.options(0));
  makers.newest().die("lost");
  ASSERT_TRUE(soon([&] { return !generator.failure().empty(); }));
  EXPECT_EQ(generator.gave_up()->code, ExitCode::kRequeue);
  EXPECT_EQ(generator.last_seen_alive(), Clock::time_point::min());
}

TEST(RestartingGeneratorTest, AnAlarmRefusesAtOnceAndWaitsForTheGeneratorToTell) {
  Makers makers;
  RestartingGenerator generator(makers.options(1));
  const auto listener = std::make_shared<NotingListener>();
  (void)generator.submit(request_of({1}), listener);
  makers.generations[0].alarm({.reason = "rank 0 was lost"});
  EXPECT_EQ(generator.last_seen_alive(), Clock::time_point::min());
  const Submission now = generator.submit(request_of({1}), std::make_shared<NotingListener>());
  EXPECT_EQ(now.refused, Refused::kDead);
  EXPECT_FALSE(makers.states[0]->destroyed());
  makers.newest().die("the engine noticed");
  EXPECT_EQ(listener->why, "the engine noticed");
  ASSERT_TRUE(soon([&] { return makers.made() == 2; }));
  // Nobody hears any more of a generator that is gone.
  makers.generations[0].alarm({.reason = "late"});
  ASSERT_TRUE(soon([&] { return generator.last_seen_alive() > Clock::time_point::min(); }));
}

TEST(RestartingGeneratorTest, WhatANewOneWouldFindAgainEndsItWithItsCode) {
  Makers makers;
  RestartingGenerator generator(makers.options(5));
  {
    const std::scoped_lock lock(makers.mutex);
    makers.failure = Error("shard 3 is damaged", ExitCode::kCorrupt);
  }
  makers.newest().die("lost");
  ASSERT_TRUE(soon([&] { return generator.gave_up().has_value(); }));
  EXPECT_EQ(generator.gave_up()->code, ExitCode::kCorrupt);
  EXPECT_EQ(generator.failure(), "shard 3 is damaged");
}

TEST(RestartingGeneratorTest, AStartThatFailsUsesUpARestart) {
  Makers makers;
  RestartingGenerator generator(makers.options(3));
  {
    const std::scoped_lock lock(makers.mutex);
    makers.failure = Error("rank 0 was killed");
  }
  makers.newest().die("lost");
  ASSERT_TRUE(soon([&] { return generator.gave_up().has_value(); }));
  EXPECT_EQ(generator.gave_up()->code, ExitCode::kRequeue);
  EXPECT_EQ(makers.generations.size(), 4U);
}

TEST(RestartingGeneratorTest, TheFirstOneThatFailsIsTheCallersError) {
  Makers makers;
  makers.failure = Error("too little memory", ExitCode::kDoesNotFit);
  try {
    const RestartingGenerator generator(makers.options(3));
    ADD_FAILURE() << "it is there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDoesNotFit);
  }
}

TEST(RestartingGeneratorTest, AGoodGenerationGivesRestartsBack) {
  Makers makers;
  RestartOptions options = makers.options(1);
  options.good_after = milliseconds(0);
  RestartingGenerator generator(options);
  for (size_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(soon([&] { return makers.made() == i; }));
    makers.newest().die("lost");
  }
  ASSERT_TRUE(soon([&] { return makers.made() == 6; }));
  EXPECT_EQ(generator.failure(), "");
}

TEST(RestartingGeneratorTest, TotalsGoOnOverGenerations) {
  Makers makers;
  RestartingGenerator generator(makers.options(1));
  (void)generator.submit(request_of({1}), std::make_shared<NotingListener>());
  makers.newest().step();
  makers.newest().step();
  makers.newest().die("lost");
  ASSERT_TRUE(soon([&] { return generator.last_seen_alive() > Clock::time_point::min(); }));
  EXPECT_EQ(generator.stats().answer_tokens_total, 2U);
  EXPECT_EQ(generator.stats().pages, 10) << "of the one at hand alone";
}

TEST(RestartingGeneratorTest, WhileItDrainsNothingIsStartedAgain) {
  Makers makers;
  RestartingGenerator generator(makers.options(3));
  (void)generator.submit(request_of({1}), std::make_shared<NotingListener>());
  EXPECT_FALSE(generator.drain(milliseconds(1)));
  const Submission now = generator.submit(request_of({1}), std::make_shared<NotingListener>());
  EXPECT_EQ(now.refused, Refused::kDraining);
  makers.newest().die("lost");
  ASSERT_TRUE(soon([&] { return !generator.failure().empty(); }));
  EXPECT_EQ(makers.made(), 1U);
}

TEST(RestartingGeneratorTest, WhoIsDestroyedTellsTheMakerThatNobodyWaits) {
  Makers makers;
  RestartOptions options = makers.options(1);
  std::atomic<bool> making{false};
  std::atomic<bool> cancelled{false};
  options.make = [&, make = options.make](const RestartOptions::Generation& generation) {
    if (generation.number == 1) return make(generation);
    making = true;
    cancelled = soon(generation.cancelled);
    throw Error("nobody waits");
  };
  {
    const RestartingGenerator generator(options);
    makers.newest().die("lost");
    ASSERT_TRUE(soon([&] { return making.load(); }));
  }
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace tessera::serve
