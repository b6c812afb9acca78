// Which samples a run has read is one number: the same on every mesh, and another one where a
// sample is left out or read twice.
#include "train/samples/sample_ledger.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "runtime/world.h"
#include "support/tiny.h"

namespace tessera {
namespace {

constexpr int64_t kSteps = 3;

// What goes wrong in step 2.
enum class Mistake : uint8_t { kNone, kAnotherSample, kReadsTwice, kFilledTwice };

std::string total_of(const std::string& line, Mistake mistake = Mistake::kNone,
                     const nlohmann::json& before = "0") {
  const testing::TinyCase one = testing::parse_case(line);
  World world(build_step(one.spec, StepKind::kTraining));
  LocalWorld control({.size = world.size()});
  const SampleSource plain = testing::random_samples(one.spec, "none");
  std::vector<std::string> totals(static_cast<size_t>(world.size()));
  world.run([&](int rank, Executor& executor) {
    SampleLedger ledger(one.spec, executor.program());
    if (before != "0") ledger.restore(before);
    for (int64_t step = 1; step <= kSteps; ++step) {
      const bool wrong = step == 2;
      const int64_t read = wrong && mistake == Mistake::kAnotherSample ? 1 : step;
      fill_inputs(executor, one.spec, read, ledger.watch(plain, step));
      // As an evaluation makes necessary: the step reads what is there last.
      if (wrong && mistake == Mistake::kFilledTwice) {
        fill_inputs(executor, one.spec, step, ledger.watch(plain, step));
      }
      ledger.count(step);
      if (wrong && mistake == Mistake::kReadsTwice) ledger.count(step);
    }
    totals[static_cast<size_t>(rank)] = ledger.total(*control.endpoint(rank).join_all("control"));
  });
  for (const std::string& total : totals) EXPECT_EQ(total, totals[0]);
  return totals[0];
}

TEST(SampleLedgerTest, IsTheSameOnEveryMesh) {
  const std::string one = total_of("dp=1 global_batch=8");
  for (const std::string mesh :
       {"dp=4", "fsdp=2 dp=2 zero=3", "tp=2", "cp=2", "pp=2", "pp=2 schedule=zb-v layers=4",
        "pp=2 dp=2 tp=2", "dp=3 lanes=4", "dp=4 lanes=4 redundancy=2", "micro_batch=2 dp=2"}) {
    SCOPED_TRACE(mesh);
    EXPECT_EQ(total_of(mesh + " global_batch=8"), one);
    EXPECT_NE(total_of(mesh + " global_batch=8", Mistake::kAnotherSample), one);
  }
  EXPECT_NE(total_of("dp=1 global_batch=12"), one);
}

TEST(SampleLedgerTest, SeesWhatIsReadTwiceAndNotWhatIsFilledTwice) {
  const std::string mesh = "dp=2 global_batch=8";
  EXPECT_NE(total_of(mesh, Mistake::kReadsTwice), total_of(mesh));
  EXPECT_EQ(total_of(mesh, Mistake::kFilledTwice), total_of(mesh));
}

TEST(SampleLedgerTest, GoesOnFromWhatACheckpointHas) {
  const std::string mesh = "dp=2 global_batch=8";
  const std::string one = total_of(mesh);
  const uint64_t sum = std::stoull(one, nullptr, 16);
  EXPECT_EQ(total_of(mesh, Mistake::kNone, one), fmt::format("{:016x}", 2 * sum));
  EXPECT_EQ(total_of(mesh, Mistake::kNone, ""), "") << "what is not known stays so";
  const testing::TinyCase tiny = testing::parse_case(mesh);
  World world(build_step(tiny.spec, StepKind::kTraining));
  SampleLedger ledger(tiny.spec, world.program(0));
  EXPECT_THROW(ledger.restore("12 apples"), Error);
}

}  // namespace
}  // namespace tessera
