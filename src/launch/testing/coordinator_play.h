// The coordinator with a clock that the test turns, and agents that the test plays.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/hosts/coordinator.h"
#include "launch/rendezvous/frame_body.h"

namespace tessera::testing {

inline constexpr uint64_t kRun = 5;
inline constexpr std::chrono::milliseconds kLease{5'000};

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() { begin({.run = kRun}); }

  void begin(const CoordinatorState& state) {
    options_.hosts = 2;
    options_.world = 4;
    options_.restarts = 2;
    options_.lease = kLease;
    options_.host_wait = std::chrono::milliseconds(60'000);
    options_.keep = [this](const CoordinatorState& now) { kept_ = now; };
    options_.on_resize = [this](int before, int ranks, int generation, const std::string& reason) {
      resizes_.push_back(fmt::format("{}: {} -> {} ({})", generation, before, ranks, reason));
    };
    options_.on_trouble = [this](const RankTrouble& trouble, bool) {
      troubles_.push_back(trouble);
    };
    options_.on_loss = [this](const RankLoss& loss, bool) { losses_.push_back(loss); };
    coordinator_.emplace(options_, state, now_);
  }

  std::string join(int host, const std::string& incarnation = "first", uint64_t generation = 0,
                   uint64_t run = 0) {
    return coordinator_->join(now_, {host, incarnation}, run, generation).refusal;
  }
  void say(int host, ControlKind kind, uint64_t generation, const std::string& body = "") {
    coordinator_->hear(now_, host,
                       {.kind = kind, .run = kRun, .generation = generation, .body = body});
  }
  void renew(int host) {
    std::string body;
    put_long(body, 1);
    say(host, ControlKind::kRenew, 0, body);
  }
  void pass(std::chrono::milliseconds time) {
    now_ += time;
    coordinator_->tick(now_);
  }
  // Time passes, and these hosts renew their leases.
  void pass_with(std::chrono::milliseconds time, const std::vector<int>& hosts) {
    for (std::chrono::milliseconds done{0}; done < time; done += std::chrono::milliseconds(500)) {
      for (const int host : hosts) renew(host);
      pass(std::chrono::milliseconds(500));
    }
  }
  // "0:prepare1 1:prepare1": host, order, generation.
  std::string orders() {
    std::string text;
    for (const HostOrder& order : coordinator_->take_orders()) {
      std::string word;
      switch (order.frame.kind) {
        case ControlKind::kPrepare:
          word = "prepare";
          break;
        case ControlKind::kStart:
          word = "start";
          break;
        case ControlKind::kEnd:
          word = "end";
          break;
        case ControlKind::kStale:
          word = "stale";
          break;
        case ControlKind::kFinish:
          word = "finish";
          break;
        case ControlKind::kRanks:
          word = name_of(parse_order(order.frame.body).kind);
          break;
        default:
          continue;
      }
      text += fmt::format("{}{}:{}{}", text.empty() ? "" : " ", order.host, word,
                          order.frame.generation);
    }
    return text;
  }
  static std::string name_of(RankCommand::Kind kind) {
    return kind == RankCommand::Kind::kSayWhere ? "where"
           : kind == RankCommand::Kind::kKill   ? "kill"
                                                : "room";
  }
  void ready(int host, uint64_t generation) {
    say(host, ControlKind::kReady, generation, to_body(std::vector<std::string>{"a:1", "a:2"}));
  }
  void ended(int host, uint64_t generation, const GenerationReport& report) {
    say(host, ControlKind::kEnded, generation, to_body(report));
  }
  static GenerationReport killed(int rank, const std::string& reason) {
    GenerationReport report{.exit_code = 1, .message = reason};
    report.loss = RankLoss{.rank = rank, .reason = reason, .curable = true};
    return report;
  }
  // Both hosts run generation `generation`.
  void run(uint64_t generation = 1) {
    for (const int host : {0, 1}) {
      if (generation == 1) {
        EXPECT_EQ(join(host), "");
      }
    }
    pass(std::chrono::milliseconds(1));
    EXPECT_EQ(orders(), fmt::format("0:prepare{0} 1:prepare{0}", generation));
    for (const int host : {0, 1}) ready(host, generation);
    EXPECT_EQ(orders(), fmt::format("0:start{0} 1:start{0}", generation));
  }

  CoordinatorOptions options_;
  Coordinator::Time now_{};
  std::optional<Coordinator> coordinator_;
  CoordinatorState kept_;
  std::vector<RankLoss> losses_;
  std::vector<RankTrouble> troubles_;
  std::vector<std::string> resizes_;
};

}  // namespace tessera::testing
