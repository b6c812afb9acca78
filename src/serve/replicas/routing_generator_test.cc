#include "serve/replicas/routing_generator.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "serve/testing/fake_generator.h"

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;

struct Fleet {
  explicit Fleet(int replicas) {
    std::vector<std::unique_ptr<Generator>> all;
    for (int i = 0; i < replicas; ++i) {
      states.push_back(std::make_shared<FakeState>());
      all.push_back(std::make_unique<FakeGenerator>(states.back()));
    }
    router = std::make_unique<RoutingGenerator>(std::move(all), 4);
  }
  // Which replica takes it; -1: none.
  int submit(std::vector<int32_t> prompt, int64_t max_tokens = 8) {
    std::vector<size_t> before;
    for (const auto& state : states) before.push_back(state->taken().size());
    listeners.push_back(std::make_shared<NotingListener>());
    last = router->submit(request_of(std::move(prompt), max_tokens), listeners.back());
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i]->taken().size() > before[i]) return static_cast<int>(i);
    }
    return -1;
  }
  std::vector<std::shared_ptr<FakeState>> states;
  std::unique_ptr<RoutingGenerator> router;
  std::vector<std::shared_ptr<NotingListener>> listeners;
  Submission last;
};

const std::vector<int32_t> kSystem = {1, 2, 3, 4, 5, 6, 7, 8};

std::vector<int32_t> with_system(std::vector<int32_t> rest) {
  rest.insert(rest.begin(), kSystem.begin(), kSystem.end());
  return rest;
}

TEST(RoutingGeneratorTest, RequestsGoWhereLeastIsToBeDone) {
  Fleet fleet(3);
  EXPECT_EQ(fleet.submit({10, 11}, 100), 0);
  EXPECT_EQ(fleet.submit({20, 21}, 10), 1);
  EXPECT_EQ(fleet.submit({30, 31}, 50), 2);
  EXPECT_EQ(fleet.submit({40, 41}, 1), 1);
  EXPECT_EQ(fleet.router->loads(), (std::vector<int64_t>{102, 15, 52}));
  fleet.states[0]->end_all(FinishReason::kStop);
  EXPECT_EQ(fleet.router->loads(), (std::vector<int64_t>{0, 15, 52}));
  EXPECT_EQ(fleet.submit({50, 51}), 0);
}

TEST(RoutingGeneratorTest, TokensThatHaveComeAreNoLoad) {
  Fleet fleet(1);
  fleet.submit({10, 11, 12}, 3);
  EXPECT_EQ(fleet.router->loads()[0], 6);
  fleet.states[0]->step();
  EXPECT_EQ(fleet.router->loads()[0], 2);
  for (int i = 0; i < 5; ++i) fleet.states[0]->step();
  EXPECT_EQ(fleet.router->loads()[0], 0);
  EXPECT_EQ(fleet.listeners[0]->tokens, 6);
  fleet.states[0]->end_all(FinishReason::kLength);
  EXPECT_EQ(fleet.router->loads()[0], 0);
  EXPECT_EQ(fleet.listeners[0]->ended, 1);
}

TEST(RoutingGeneratorTest, APromptGoesWhereItsBeginningIs) {
  Fleet fleet(2);
  EXPECT_EQ(fleet.submit({90, 91}, 30), 0);
  EXPECT_EQ(fleet.submit(with_system({10})), 1);
  EXPECT_EQ(fleet.submit(with_system({20})), 1) << "although 0 has as little to do";
  EXPECT_EQ(fleet.submit(with_system({30})), 1);
  // Each of them adds load, so that not all go to one place.
  int others = 0;
  for (int32_t i = 0; i < 12; ++i) others += fleet.submit(with_system({40 + i})) == 0 ? 1 : 0;
  EXPECT_GT(others, 0);
}

TEST(RoutingGeneratorTest, WhatOneRefusesAnotherMayTake) {
  Fleet fleet(2);
  fleet.states[0]->refuse(Refused::kQueueFull);
  EXPECT_EQ(fleet.submit({1, 2}), 1);
  fleet.states[1]->refuse(Refused::kQueueFull);
  EXPECT_EQ(fleet.submit({1, 2}), -1);
  EXPECT_EQ(fleet.last.refused, Refused::kQueueFull);
  EXPECT_EQ(fleet.router->loads(), (std::vector<int64_t>{0, 10}));
  fleet.states[0]->refuse(Refused::kTooLong);
  fleet.states[1]->refuse(Refused::kNo);
  EXPECT_EQ(fleet.submit({9, 8}), -1) << "it is too long for all";
  EXPECT_EQ(fleet.last.refused, Refused::kTooLong);
}

TEST(RoutingGeneratorTest, ARequestReachesAReplicaWhole) {
  Fleet fleet(2);
  fleet.states[0]->refuse(Refused::kQueueFull);  // so that it is copied
  GenerationRequest request = request_of({1, 2, 3}, 7);
  request.min_tokens = 2;
  request.choices = 3;
  request.sampling.seed = 11;
  request.end_tokens = {4};
  request.prompt_logprobs = true;
  request.priority = -2;
  request.salt = "tenant";
  request.deadline = std::chrono::steady_clock::now();
  const auto deadline = request.deadline;
  (void)fleet.router->submit(std::move(request), std::make_shared<NotingListener>());
  ASSERT_EQ(fleet.states[1]->taken().size(), 1U);
  const GenerationRequest& taken = fleet.states[1]->taken().front();
  EXPECT_EQ(taken.prompt, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(taken.max_tokens, 7);
  EXPECT_EQ(taken.min_tokens, 2);
  EXPECT_EQ(taken.choices, 3);
  EXPECT_EQ(taken.sampling.seed, 11U);
  EXPECT_EQ(taken.end_tokens, (std::vector<int32_t>{4}));
  EXPECT_TRUE(taken.prompt_logprobs);
  EXPECT_EQ(taken.priority, -2);
  EXPECT_EQ(taken.salt, "tenant");
  EXPECT_EQ(taken.deadline, deadline);
}

TEST(RoutingGeneratorTest, ADeadReplicaIsLeftOut) {
  Fleet fleet(2);
  EXPECT_EQ(fleet.submit(with_system({1})), 0);
  fleet.states[0]->die("rank 1 was lost");
  EXPECT_EQ(fleet.listeners[0]->last, FinishReason::kFailed);
  EXPECT_EQ(fleet.listeners[0]->why, "rank 1 was lost");
  EXPECT_EQ(fleet.submit(with_system({2})), 1);
  EXPECT_EQ(fleet.router->failure(), "");
  EXPECT_EQ(fleet.router->answering(), 1);
  fleet.states[1]->die("rank 0 was lost");
  EXPECT_EQ(fleet.router->failure(), "replica 0: rank 1 was lost; replica 1: rank 0 was lost");
  EXPECT_EQ(fleet.submit(with_system({3})), -1);
  EXPECT_EQ(fleet.last.refused, Refused::kDead);
}

TEST(RoutingGeneratorTest, OneThatStartsAgainHasForgottenWhatItWasSent) {
  Fleet fleet(2);
  EXPECT_EQ(fleet.submit(with_system({1}), 1), 0);
  fleet.states[0]->look_dead(true);
  EXPECT_EQ(fleet.submit(with_system({2}), 1), 1);
  EXPECT_GT(fleet.router->last_seen_alive(), std::chrono::steady_clock::time_point::min());
  fleet.states[0]->look_dead(false);
  for (const auto& state : fleet.states) state->end_all(FinishReason::kStop);
  EXPECT_EQ(fleet.submit(with_system({3}), 1), 1) << "whose cache has it";
  // Silent is not dead: if nobody else is there, it is asked.
  for (const auto& state : fleet.states) state->look_dead(true);
  EXPECT_NE(fleet.submit({1, 2, 3}), -1);
  EXPECT_EQ(fleet.router->last_seen_alive(), std::chrono::steady_clock::time_point::min());
}

TEST(RoutingGeneratorTest, CancellationsReachTheReplicaThatHasTheRequest) {
  Fleet fleet(3);
  std::vector<GenerationId> ids;
  for (int32_t i = 0; i < 6; ++i) {
    fleet.submit({i});
    ids.push_back(fleet.last.id);
  }
  fleet.router->cancel(ids[4]);
  fleet.router->cancel_choice(ids[5], 7);
  EXPECT_TRUE(fleet.states[0]->cancelled().empty());
  EXPECT_EQ(fleet.states[1]->cancelled(), (std::vector<GenerationId>{2}));
  EXPECT_EQ(fleet.states[2]->cancelled(), (std::vector<GenerationId>{207}));
}

TEST(RoutingGeneratorTest, NothingIsTakenOnceItDrains) {
  Fleet fleet(2);
  fleet.submit({1});
  EXPECT_FALSE(fleet.router->drain(std::chrono::milliseconds(1)));
  EXPECT_EQ(fleet.submit({2}), -1);
  EXPECT_EQ(fleet.last.refused, Refused::kDraining);
  fleet.states[0]->end_all(FinishReason::kStop);
  EXPECT_TRUE(fleet.router->drain(std::chrono::milliseconds(1)));
  EXPECT_EQ(fleet.router->stats().pages, 20) << "sums of all";
}

// Whatever happens, every request ends once, and no load is left.
TEST(RoutingGeneratorTest, RandomEventsLeaveNothingBehind) {
  std::mt19937 random(5);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  for (int round = 0; round < 20; ++round) {
    Fleet fleet(1 + static_cast<int>(below(4)));
    std::vector<size_t> taken;
    for (int event = 0; event < 200; ++event) {
      FakeState& state = *fleet.states[below(fleet.states.size())];
      switch (below(8)) {
        case 0:
          state.refuse(below(2) == 0 ? Refused::kNo : Refused::kQueueFull);
          break;
        case 1:
          state.end_all(FinishReason::kStop);
          break;
        case 2:
          if (below(30) == 0) state.die("gone");
          break;
        case 3:
          state.look_dead(below(2) == 0);
          break;
        case 4:
          state.step();
          break;
        default: {
          std::vector<int32_t> prompt(below(20));
          for (int32_t& token : prompt) token = static_cast<int32_t>(below(2));
          const int replica = fleet.submit(std::move(prompt), static_cast<int64_t>(below(400)));
          EXPECT_EQ(replica >= 0, fleet.last.refused == Refused::kNo);
          if (replica >= 0) taken.push_back(fleet.listeners.size() - 1);
        }
      }
      for (const int64_t load : fleet.router->loads()) ASSERT_GE(load, 0);
    }
    for (const auto& state : fleet.states) state->end_all(FinishReason::kStop);
    for (const size_t one : taken) EXPECT_EQ(fleet.listeners[one]->ended, 1);
    EXPECT_EQ(fleet.router->loads(), std::vector<int64_t>(fleet.states.size(), 0));
  }
}

}  // namespace
}  // namespace tessera::serve
