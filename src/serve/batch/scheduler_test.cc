#include "serve/batch/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "base/testing/share.h"
#include "serve/testing/toy_model.h"

namespace tessera::serve {
namespace {

using tessera::testing::message_of;

// Plays engine and ranks around a scheduler, and keeps its own simple account of what must hold.
class World {
 public:
  World(const ServeShape& shape, const BatchOptions& options)
      : shape_(shape), options_(options), scheduler_(shape, options), cache_(shape) {}

  struct Text {  // one answer
    std::vector<int32_t> tokens;
    int64_t length = 0;  // of the answer, when it ends
    bool awaits = false;
    bool has_begun = false;
  };
  struct Request {
    BatchRequest asked;
    std::map<int, Text> texts;  // those that have not ended
    bool has_begun = false;
    int overtaken = 0;
    int64_t rows_seen = 0;
  };

  GenerationId add(BatchRequest asked, const std::vector<int64_t>& lengths) {
    asked.id = next_id_++;
    Request request;
    request.asked = asked;
    for (int choice = 0; choice < asked.choices; ++choice) {
      request.texts[choice] = {.tokens = asked.prompt,
                               .length = lengths[static_cast<size_t>(choice) % lengths.size()]};
    }
    scheduler_.add(asked);
    const GenerationId id = asked.id;
    requests_.emplace(id, std::move(request));
    return id;
  }

  void end(GenerationId id, int choice) {
    scheduler_.end(id, choice);
    const auto request = requests_.find(id);
    if (request == requests_.end()) return;
    request->second.texts.erase(choice);
    if (request->second.texts.empty()) requests_.erase(request);
  }

  bool plan() {
    if (std::ssize(under_way_) == shape_.stages) return false;
    PlannedFrame planned;
    if (!scheduler_.plan(planned)) return false;
    EXPECT_EQ(planned.frame.number, next_frame_++);
    EXPECT_LE(std::ssize(planned.frame.tokens), options_.token_budget);
    EXPECT_EQ(planned.owners.size(), planned.frame.rows.size());
    if (shape_.stages == 1) expect_every_answer_in(planned);
    for (size_t i = 0; i < planned.owners.size(); ++i) {
      const RowOwner& owner = planned.owners[i];
      EXPECT_EQ(planned.frame.rows[i].sampling.choice, static_cast<uint32_t>(owner.choice));
      if (owner.prompt_token != RowOwner::kAnswer) continue;
      Text& text = requests_.at(owner.id).texts.at(owner.choice);
      EXPECT_FALSE(text.awaits);
      EXPECT_EQ(planned.frame.rows[i].sampling.position, std::ssize(text.tokens));
      text.awaits = text.has_begun = true;
    }
    note_who_began();
    under_way_.push_back({planned.owners, cache_.run(planned.frame)});
    most_under_way_ = std::max(most_under_way_, under_way_.size());
    return true;
  }

  // The oldest frame's rows: each must be computed from exactly the text that it belongs to.
  bool finish() {
    if (under_way_.empty()) return false;
    const auto [owners, states] = std::move(under_way_.front());
    under_way_.pop_front();
    for (size_t i = 0; i < owners.size(); ++i) take_row(owners[i], states[i]);
    return true;
  }

  // All that is left, with no event in between. Bounded: each frame computes something new, or
  // again what was preempted.
  void drain() {
    int64_t bound = 100;
    for (const auto& [id, request] : requests_) {
      for (const auto& [choice, text] : request.texts) {
        bound += 40 * (text.length + 2) + 40 * std::ssize(request.asked.prompt);
      }
    }
    for (; !requests_.empty() && bound > 0; --bound) {
      while (plan()) {
      }
      ASSERT_TRUE(finish()) << requests_.size() << " requests starve";
      scheduler_.check();
      if (::testing::Test::HasFailure()) return;
    }
    ASSERT_TRUE(requests_.empty()) << requests_.size() << " requests starve";
    while (finish()) {
    }
    scheduler_.check();
    EXPECT_TRUE(scheduler_.is_idle());
    EXPECT_EQ(scheduler_.stats().pages_used, 0);
    EXPECT_EQ(scheduler_.stats().running + scheduler_.stats().waiting, 0);
  }

  Scheduler& scheduler() { return scheduler_; }
  std::map<GenerationId, Request>& requests() { return requests_; }
  // What every answer that came to its end has said.
  std::map<std::pair<GenerationId, int>, std::vector<int32_t>>& written() { return written_; }
  [[nodiscard]] size_t most_under_way() const { return most_under_way_; }

 private:
  struct UnderWay {
    std::vector<RowOwner> owners;
    std::vector<uint64_t> states;
  };

  void take_row(const RowOwner& owner, uint64_t state) {
    const auto request = requests_.find(owner.id);
    if (request == requests_.end()) return;
    if (owner.prompt_token != RowOwner::kAnswer) {
      EXPECT_EQ(owner.prompt_token, ++request->second.rows_seen);
      const std::span<const int32_t> prompt = request->second.asked.prompt;
      EXPECT_EQ(state, toy_state_of(prompt.first(static_cast<size_t>(owner.prompt_token))));
      return;
    }
    const auto found = request->second.texts.find(owner.choice);
    if (found == request->second.texts.end()) return;
    Text& text = found->second;
    ASSERT_EQ(state, toy_state_of(text.tokens)) << "request " << owner.id;
    text.awaits = false;
    const int64_t answered = std::ssize(text.tokens) - std::ssize(request->second.asked.prompt) + 1;
    if (answered > text.length) {  // none was wanted, or its end token
      written_[{owner.id, owner.choice}] = text.tokens;
      end(owner.id, owner.choice);
      return;
    }
    // Choices differ by what they draw.
    const auto token = static_cast<int32_t>((state + static_cast<uint64_t>(owner.choice)) %
                                            static_cast<uint64_t>(shape_.vocab));
    text.tokens.push_back(token);
    EXPECT_TRUE(scheduler_.append(owner.id, owner.choice, token));
    if (answered < text.length) return;
    written_[{owner.id, owner.choice}] = text.tokens;
    end(owner.id, owner.choice);
  }

  void note_who_began() {
    for (auto& [id, request] : requests_) {
      if (request.has_begun || !scheduler_.has_begun(id)) continue;
      request.has_begun = true;
      const int64_t cached = scheduler_.cached_tokens(id);
      EXPECT_EQ(cached % shape_.page_size, 0);
      EXPECT_LT(cached, std::ssize(request.asked.prompt));
    }
    for (auto& [id, request] : requests_) {
      if (request.has_begun || scheduler_.has_begun(id)) continue;
      for (const auto& [later, other] : requests_) {
        if (later <= id || !other.has_begun || counted_.contains({id, later})) continue;
        if (other.asked.priority != request.asked.priority) continue;
        counted_.insert({id, later});
        EXPECT_LE(++request.overtaken, 1) << "request " << id;
      }
    }
  }

  // But those that were preempted, which may still be coming back.
  void expect_every_answer_in(const PlannedFrame& planned) {
    std::set<std::pair<GenerationId, int>> in_frame;
    for (const RowOwner& owner : planned.owners) in_frame.insert({owner.id, owner.choice});
    for (const auto& [id, request] : requests_) {
      for (const auto& [choice, text] : request.texts) {
        if (!text.has_begun || scheduler_.times_preempted(id, choice) > 0) continue;
        EXPECT_TRUE(in_frame.contains({id, choice})) << "request " << id << ", answer " << choice;
      }
    }
  }

  ServeShape shape_;
  BatchOptions options_;
  Scheduler scheduler_;
  ToyCache cache_;
  std::map<GenerationId, Request> requests_;
  std::map<std::pair<GenerationId, int>, std::vector<int32_t>> written_;
  std::set<std::pair<GenerationId, GenerationId>> counted_;
  std::deque<UnderWay> under_way_;
  GenerationId next_id_ = 0;
  uint64_t next_frame_ = 1;
  size_t most_under_way_ = 0;
};

class EventDice {
 public:
  explicit EventDice(uint64_t seed) : engine_(seed) {}
  int64_t roll(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }
  bool one_in(int64_t n) { return roll(1, n) == 1; }

  ServeShape shape() {
    ServeShape shape;
    shape.vocab = 50;
    shape.page_size = one_in(3) ? 1 : roll(2, 5);
    shape.max_context = roll(8, 60);
    shape.num_pages = roll(3, one_in(3) ? 60 : 12);
    shape.max_tokens = roll(1, 30);
    shape.max_sequences = roll(1, 9);
    shape.max_rows = roll(1, 9);
    shape.stages = static_cast<int>(one_in(2) ? 1 : roll(2, 4));
    return shape;
  }
  BatchOptions options() {
    BatchOptions options;
    options.token_budget = roll(1, 30);
    options.admission = one_in(3) ? Admission::kGuarantee : Admission::kExpected;
    options.prefix_cache = !one_in(5);
    options.least_chunk = roll(1, 8);
    options.expected_answer = one_in(4) ? roll(1, 20) : 1;
    return options;
  }

  // Few tokens and few heads, so that prompts share pages.
  BatchRequest request(const ServeShape& shape) {
    BatchRequest asked;
    const int64_t head = roll(0, 2);
    const int64_t size = roll(1, shape.max_context);
    for (int64_t i = 0; i < size; ++i) {
      asked.prompt.push_back(static_cast<int32_t>((i < 20 ? i * (head + 3) : roll(0, 2)) % 50));
    }
    if (one_in(4)) asked.prompt.back() = static_cast<int32_t>(roll(0, 49));
    asked.max_tokens = roll(0, 20);
    asked.choices = one_in(3) ? static_cast<int>(roll(2, 4)) : 1;
    asked.priority = one_in(4) ? static_cast<int>(roll(-1, 1)) : 0;
    asked.prompt_rows = one_in(6);
    if (one_in(5)) asked.salt = "other";
    return asked;
  }

 private:
  std::mt19937_64 engine_;
};

bool add_random(EventDice& dice, World& world, const ServeShape& shape,
                const BatchOptions& options) {
  const BatchRequest asked = dice.request(shape);
  if (!why_too_long(std::ssize(asked.prompt), asked.max_tokens, asked.choices, shape, options)
           .empty()) {
    return false;
  }
  std::vector<int64_t> lengths;
  for (int choice = 0; choice < asked.choices; ++choice) {
    lengths.push_back(dice.roll(0, asked.max_tokens));
  }
  world.add(asked, lengths);
  return true;
}

// Any answer that has not ended.
template <typename Act>
void with_random_answer(EventDice& dice, World& world, const Act& act) {
  if (world.requests().empty()) return;
  auto request = world.requests().begin();
  std::advance(request, dice.roll(0, std::ssize(world.requests()) - 1));
  auto text = request->second.texts.begin();
  std::advance(text, dice.roll(0, std::ssize(request->second.texts) - 1));
  act(request->first, text->first);
}

struct Seen {
  uint64_t preemptions = 0, hits = 0, recomputed = 0;
  size_t most_under_way = 0;
};

void run_random_events(uint64_t seed, int64_t num_events, Seen& seen) {
  EventDice dice(seed);
  const ServeShape shape = dice.shape();
  const BatchOptions options = dice.options();
  SCOPED_TRACE("seed " + std::to_string(seed));
  World world(shape, options);
  const int64_t busy = dice.roll(1, 30);
  for (int64_t event = 0; event < num_events && !::testing::Test::HasFailure(); ++event) {
    switch (dice.roll(0, 7)) {
      case 0:
      case 1:
        if (std::ssize(world.requests()) < busy) add_random(dice, world, shape, options);
        break;
      case 2:
      case 3:
      case 4:
        world.plan();
        break;
      case 5:
      case 6:
        world.finish();
        break;
      default:
        if (dice.one_in(6)) {
          with_random_answer(dice, world,
                             [&](GenerationId id, int choice) { world.end(id, choice); });
        }
    }
    world.scheduler().check();
  }
  if (!::testing::Test::HasFailure()) world.drain();
  const BatchStats stats = world.scheduler().stats();
  if (options.admission == Admission::kGuarantee) {
    EXPECT_EQ(stats.preemptions, 0U);
  }
  seen.preemptions += stats.preemptions;
  seen.hits += stats.prefix_hit_tokens;
  seen.recomputed += stats.recomputed_tokens;
  seen.most_under_way = std::max(seen.most_under_way, world.most_under_way());
}

TEST(SchedulerTest, EveryRowIsComputedFromItsTextWhateverHappens) {
  const tessera::testing::Share cases = tessera::testing::share_of(2000, 25);
  Seen seen;
  for (int64_t seed = cases.begin; seed < cases.end && !HasFailure(); ++seed) {
    run_random_events(static_cast<uint64_t>(seed), 500, seen);
  }
  // The test has met what it is for.
  EXPECT_GT(seen.preemptions, 20U);
  EXPECT_GT(seen.hits, 1000U);
  EXPECT_GT(seen.recomputed, 100U);
  EXPECT_EQ(seen.most_under_way, 4U);
}

constexpr ServeShape kSmall = {.vocab = 50,
                               .max_context = 60,
                               .page_size = 4,
                               .num_pages = 30,
                               .max_tokens = 16,
                               .max_sequences = 6,
                               .max_rows = 6};

std::vector<int32_t> prompt_of(int64_t size, int64_t which) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < size; ++i) prompt.push_back(static_cast<int32_t>((i * 7 + which) % 50));
  return prompt;
}

void add_mixture(World& world) {
  world.add({.prompt = prompt_of(21, 1), .max_tokens = 9}, {9});
  world.add({.prompt = prompt_of(7, 2), .max_tokens = 6, .choices = 3}, {6, 4, 5});
  world.add({.prompt = prompt_of(21, 1), .max_tokens = 5}, {5});
  world.add({.prompt = prompt_of(8, 3), .max_tokens = 7, .prompt_rows = true}, {7});
}

// At each step each text that runs; what it then is written is what it is without.
TEST(SchedulerTest, PreemptionAtAnyStepChangesNoText) {
  for (const int stages : {1, 3}) {
    ServeShape shape = kSmall;
    shape.stages = stages;
    World undisturbed(shape, {});
    add_mixture(undisturbed);
    undisturbed.drain();
    const auto texts = undisturbed.written();
    ASSERT_EQ(texts.size(), 6U);
    uint64_t preemptions = 0;
    for (int64_t step = 0; step < 30; ++step) {
      for (GenerationId id = 0; id < 4; ++id) {
        for (int choice = 0; choice < 3; ++choice) {
          World world(shape, {});
          add_mixture(world);
          for (int64_t i = 0; i < step; ++i) {
            if (!world.plan()) world.finish();
          }
          world.scheduler().preempt(id, choice);
          world.scheduler().check();
          world.drain();
          ASSERT_EQ(world.written(), texts) << "step " << step << ", request " << id;
          preemptions += world.scheduler().stats().preemptions;
        }
      }
    }
    EXPECT_GT(preemptions, 50U);
  }
}

// At each step each text ends; its pages are free at once, and nobody else notices.
TEST(SchedulerTest, AnEndAtAnyStepChangesNoOtherText) {
  for (const int stages : {1, 3}) {
    ServeShape shape = kSmall;
    shape.stages = stages;
    World undisturbed(shape, {});
    add_mixture(undisturbed);
    undisturbed.drain();
    for (int64_t step = 0; step < 30; ++step) {
      for (GenerationId id = 0; id < 4; ++id) {
        for (int choice = 0; choice < (id == 1 ? 3 : 1); ++choice) {
          World world(shape, {});
          add_mixture(world);
          for (int64_t i = 0; i < step; ++i) {
            if (!world.plan()) world.finish();
          }
          const bool had_ended = world.written().contains({id, choice});
          world.end(id, choice);
          world.scheduler().check();
          world.drain();
          auto expected = undisturbed.written();
          if (!had_ended) expected.erase({id, choice});
          ASSERT_EQ(world.written(), expected) << "step " << step << ", request " << id;
        }
      }
    }
  }
}

TEST(SchedulerTest, ChunksOfALongPromptAreUnderWayAtOnce) {
  ServeShape shape = kSmall;
  shape.stages = 4;
  World world(shape, {.token_budget = 10});
  world.add({.prompt = prompt_of(40, 1), .max_tokens = 3}, {3});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(world.plan());
  EXPECT_FALSE(world.plan());
  EXPECT_EQ(world.most_under_way(), 4U);
  world.drain();
}

// A prompt that one frame could hold is cut all the same where there are several stages.
TEST(SchedulerTest, APromptIsCutIntoOneChunkForEachStage) {
  ServeShape shape = kSmall;
  shape.stages = 4;
  shape.max_tokens = 100;
  Scheduler scheduler(shape, {.least_chunk = 5});
  scheduler.add({.id = 1, .prompt = prompt_of(40, 1), .max_tokens = 3});
  PlannedFrame planned;
  std::vector<size_t> sizes;
  while (scheduler.plan(planned)) sizes.push_back(planned.frame.tokens.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{10, 10, 10, 10}));
}

TEST(SchedulerTest, GroupsOfThePipelineAreEven) {
  ServeShape shape = kSmall;
  shape.stages = 3;
  shape.num_pages = 100;
  World world(shape, {});
  for (int64_t i = 0; i < 9; ++i) {
    world.add({.prompt = prompt_of(1, i), .max_tokens = 25}, {i < 4 ? 2 : 25});
  }
  // After those that were short have ended, five are left: two, two and one.
  std::vector<size_t> last;
  for (int step = 0; step < 40; ++step) {
    while (world.plan()) {
    }
    world.finish();
  }
  Scheduler& scheduler = world.scheduler();
  EXPECT_EQ(scheduler.stats().running, 5);
  EXPECT_EQ(scheduler.group_sizes(), (std::vector<int64_t>{1, 2, 2}));
  world.drain();
}

TEST(SchedulerTest, PromptsFindWhatWasComputedBefore) {
  World world(kSmall, {});
  const GenerationId first = world.add({.prompt = prompt_of(13, 1), .max_tokens = 8}, {8});
  world.drain();
  std::vector<int32_t> next_turn = world.written().at({first, 0});
  EXPECT_EQ(next_turn.size(), 21U);
  const auto cached = [&](const std::vector<int32_t>& prompt, const std::string& salt) {
    const GenerationId id = world.add({.prompt = prompt, .max_tokens = 1, .salt = salt}, {1});
    EXPECT_TRUE(world.plan());
    const int64_t tokens = world.scheduler().cached_tokens(id);
    world.drain();
    return tokens;
  };
  next_turn.push_back(3);
  EXPECT_EQ(cached(next_turn, ""), 20);  // also the pages of the answer
  EXPECT_EQ(cached(prompt_of(13, 1), ""), 12);
  EXPECT_EQ(cached(prompt_of(12, 1), ""), 8);  // the last token is computed in any case
  EXPECT_EQ(cached(prompt_of(13, 2), ""), 0);
  EXPECT_EQ(cached(prompt_of(13, 1), "tenant"), 0);
  EXPECT_EQ(cached(prompt_of(13, 1), "tenant"), 12);
  const BatchStats stats = world.scheduler().stats();
  EXPECT_EQ(stats.prefix_hit_tokens, 20U + 12 + 8 + 12);
  EXPECT_EQ(stats.prefix_asked_tokens, 13U + 22 + 13 + 12 + 13 + 13 + 13);
  EXPECT_EQ(stats.recomputed_tokens, 0U);
}

TEST(SchedulerTest, HitsAndRecomputedTokensAreCountedApart) {
  World world(kSmall, {});
  const GenerationId id = world.add({.prompt = prompt_of(10, 1), .max_tokens = 8}, {8});
  for (int i = 0; i < 3; ++i) {
    world.plan();
    world.finish();
  }
  world.scheduler().preempt(id, 0);  // 12 tokens were computed: three full pages
  world.drain();
  const BatchStats stats = world.scheduler().stats();
  EXPECT_EQ(stats.prefix_hit_tokens, 0U);
  EXPECT_EQ(stats.prefix_asked_tokens, 10U);
  EXPECT_EQ(stats.recomputed_tokens, 0U);
  World without(kSmall, {.prefix_cache = false});
  without.add({.prompt = prompt_of(10, 1), .max_tokens = 8}, {8});
  for (int i = 0; i < 3; ++i) {
    without.plan();
    without.finish();
  }
  without.scheduler().preempt(0, 0);
  without.drain();
  EXPECT_EQ(without.scheduler().stats().recomputed_tokens, 12U);
}

TEST(SchedulerTest, AnswersShareThePagesOfTheirPrompt) {
  World world(kSmall, {});
  world.add({.prompt = prompt_of(14, 1), .max_tokens = 4, .choices = 4}, {4});
  ASSERT_TRUE(world.plan());
  EXPECT_EQ(world.scheduler().stats().pages_used, 4);
  world.finish();
  ASSERT_TRUE(world.plan());  // three full pages together, the fourth once for each
  EXPECT_EQ(world.scheduler().stats().pages_used, 3 + 4);
  world.drain();
}

TEST(SchedulerTest, WhoLosesTheLeastGivesWayAndNobodyTwiceBeforeOthers) {
  // Two texts that grow until they do not fit together.
  ServeShape shape = kSmall;
  shape.num_pages = 11;
  World world(shape, {.prefix_cache = false, .expected_answer = 1});
  const GenerationId large = world.add({.prompt = prompt_of(16, 1), .max_tokens = 14}, {14});
  const GenerationId small = world.add({.prompt = prompt_of(12, 2), .max_tokens = 25}, {25});
  Scheduler& scheduler = world.scheduler();
  while (scheduler.stats().preemptions == 0) {
    if (!world.plan()) {
      ASSERT_TRUE(world.finish());
    }
  }
  EXPECT_EQ(scheduler.times_preempted(large, 0), 0);
  EXPECT_EQ(scheduler.times_preempted(small, 0), 1);
  world.drain();
}

TEST(SchedulerTest, GuaranteedAnswersAreNeverPreempted) {
  const auto running_of = [](Admission admission) {
    World world(kSmall, {.admission = admission, .expected_answer = 1});
    for (int i = 0; i < 6; ++i) {
      world.add({.prompt = prompt_of(3, i), .max_tokens = 40}, {40});
    }
    world.plan();
    const int64_t running = world.scheduler().stats().running;
    world.drain();
    return std::pair(running, world.scheduler().stats().preemptions > 0);
  };
  EXPECT_EQ(running_of(Admission::kGuarantee), std::pair(int64_t{2}, false));
  EXPECT_EQ(running_of(Admission::kExpected), std::pair(int64_t{6}, true));
}

TEST(SchedulerTest, UrgentOnesBeginFirst) {
  World world(kSmall, {.token_budget = 8});
  const GenerationId late =
      world.add({.prompt = prompt_of(8, 1), .max_tokens = 2, .priority = 5}, {2});
  const GenerationId first = world.add({.prompt = prompt_of(8, 2), .max_tokens = 2}, {2});
  const GenerationId second = world.add({.prompt = prompt_of(8, 3), .max_tokens = 2}, {2});
  world.plan();
  EXPECT_TRUE(world.scheduler().has_begun(first));
  EXPECT_FALSE(world.scheduler().has_begun(second));
  world.finish();
  world.plan();
  EXPECT_TRUE(world.scheduler().has_begun(second));
  EXPECT_FALSE(world.scheduler().has_begun(late));
  world.drain();
}

// One that does not fit yet lets one other pass, and no more.
TEST(SchedulerTest, ALargePromptIsNotPassedForEver) {
  ServeShape shape = kSmall;
  shape.num_pages = 24;
  World world(shape, {.expected_answer = 1});
  world.add({.prompt = prompt_of(48, 1), .max_tokens = 12}, {12});
  for (int i = 0; i < 4; ++i) {
    world.plan();
    world.finish();
  }
  const GenerationId large = world.add({.prompt = prompt_of(55, 2), .max_tokens = 2}, {2});
  std::vector<GenerationId> small;
  for (int i = 0; i < 3; ++i) {
    small.push_back(world.add({.prompt = prompt_of(2, i + 5), .max_tokens = 20}, {20}));
  }
  for (int i = 0; i < 5; ++i) {
    world.plan();
    world.finish();
  }
  EXPECT_FALSE(world.scheduler().has_begun(large));
  EXPECT_TRUE(world.scheduler().has_begun(small[0]));
  EXPECT_FALSE(world.scheduler().has_begun(small[1]));
  world.drain();
}

TEST(SchedulerTest, SaysWhoseTimeIsUp) {
  Scheduler scheduler(kSmall, {});
  const Scheduler::Time start{};
  EXPECT_EQ(scheduler.next_deadline(), std::nullopt);
  scheduler.add({.id = 1, .prompt = {1}, .max_tokens = 1});
  for (const int id : {2, 3, 4}) {
    scheduler.add({.id = static_cast<GenerationId>(id),
                   .prompt = {1},
                   .max_tokens = 1,
                   .deadline = start + std::chrono::seconds(10 - id)});
  }
  EXPECT_EQ(scheduler.next_deadline(), start + std::chrono::seconds(6));
  EXPECT_TRUE(scheduler.expired(start + std::chrono::seconds(5)).empty());
  EXPECT_EQ(scheduler.expired(start + std::chrono::seconds(7)), (std::vector<GenerationId>{4, 3}));
  scheduler.end(4);
  EXPECT_EQ(scheduler.next_deadline(), start + std::chrono::seconds(7));
}

// What went wrong is not found again by the next one that asks the same.
TEST(SchedulerTest, ForgottenPagesAreComputedAgain) {
  World world(kSmall, {});
  const GenerationId bad = world.add({.prompt = prompt_of(13, 1), .max_tokens = 8}, {8});
  world.plan();
  world.finish();
  world.scheduler().forget_pages(bad);
  world.end(bad, 0);
  world.scheduler().check();
  EXPECT_EQ(world.scheduler().stats().pages_cached, 0);
  const GenerationId next = world.add({.prompt = prompt_of(13, 1), .max_tokens = 8}, {8});
  world.plan();
  EXPECT_EQ(world.scheduler().cached_tokens(next), 0);
  world.drain();
}

TEST(SchedulerTest, SaysWhatIsTooLong) {
  EXPECT_EQ(why_too_long(50, 10, 1, kSmall, {}), "");
  EXPECT_EQ(why_too_long(50, 11, 1, kSmall, {}),
            "the prompt has 50 tokens and its answer may have 11; the context has 60: shorten the "
            "prompt or lower max_tokens");
  EXPECT_EQ(why_too_long(61, 0, 1, kSmall, {}).substr(0, 25), "the prompt has 61 tokens ");
  EXPECT_EQ(why_too_long(5, std::numeric_limits<int64_t>::max(), 1, kSmall, {}).empty(), false);
  EXPECT_EQ(why_too_long(5, 5, 7, kSmall, {}), "7 answers at once; 6 are possible: ask for fewer");
  ServeShape few = kSmall;
  few.num_pages = 6;
  EXPECT_EQ(why_too_long(20, 6, 1, few, {}),
            "a prompt of 20 tokens and an answer of up to 6 need 7 pages of the cache; it has 6: "
            "shorten the prompt or lower max_tokens");
  EXPECT_EQ(why_too_long(20, 5, 3, few, {}), "");
  EXPECT_EQ(why_too_long(20, 5, 3, few, {.admission = Admission::kGuarantee}),
            "a prompt of 20 tokens and 3 answers of up to 5 need 8 pages of the cache; it has 6: "
            "shorten the prompt or lower max_tokens or n");
  EXPECT_EQ(message_of([&] { Scheduler(kSmall, {.token_budget = 0}); }),
            "token_budget is 0: it must be 1 at least");
}

}  // namespace
}  // namespace tessera::serve
