// Saves beside the steps: they hold what was there when they began, no step waits for their disk,
// and what goes wrong with one is said and costs that one alone.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "checkpoint/store/compare.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/watched_files.h"
#include "runtime/world.h"
#include "support/tiny.h"
#include "train/save/checkpoints.h"
#include "train/session/step_params.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

using testing::message_of;
using testing::TestFolder;

// A disk that does nothing until it is opened.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

// A real folder whose changes `before` has a say in.
std::shared_ptr<FileOps> watched(const std::string& path, BeforeChange before) {
  struct Both {
    std::unique_ptr<FileOps> real;
    WatchedFiles watched;
  };
  std::unique_ptr<FileOps> real = real_files(path, /*make=*/true);
  FileOps& inner = *real;
  auto both = std::make_shared<Both>(Both{std::move(real), WatchedFiles(inner, std::move(before))});
  return {both, &both->watched};
}

// One rank of a run.
struct RankOfRun {
  const RunSpec& spec;
  const SampleSource& samples;
  const StepGraph& step;
  Executor& executor;
  Communicator& control;

  // Steps (after, last].
  void train(int64_t after, int64_t last) {
    for (int64_t s = after + 1; s <= last; ++s) {
      fill_inputs(executor, spec, s, samples);
      (void)executor.run(step_params(spec, s));
    }
  }
};

void on_every_rank(const std::string& line, const std::function<void(RankOfRun&)>& body) {
  testing::TinyCase tiny = testing::parse_case(line + " steps=6");
  tiny.spec.checkpoint.every = 1;
  tiny.spec.checkpoint.keep = 9;
  const SampleSource samples = testing::random_samples(tiny.spec, "none");
  World world(build_step(tiny.spec, StepKind::kTraining));
  LocalWorld control({.size = world.size()});
  world.run([&](int rank, Executor& executor) {
    const std::unique_ptr<Communicator> group = control.endpoint(rank).join_all("control");
    RankOfRun run{tiny.spec, samples, world.step(), executor, *group};
    load_weights(executor, world.step(), initial_weights(tiny.spec.model, 5));
    body(run);
  });
}

CheckpointDifference difference(const FileOps& a, const FileOps& b, int64_t step_b) {
  return compare_checkpoints({a, open_checkpoint(a, step_folder(3))},
                             {b, open_checkpoint(b, step_folder(step_b))});
}

TEST(BackgroundSaveTest, HoldsWhatWasThereWhenItBegan) {
  for (const std::string line : {"dp=2 zero=1 dtype=f32", "fsdp=2 zero=3 dtype=bf16",
                                 "tp=2 dp=2 zero=0 tied=true dtype=f32"}) {
    SCOPED_TRACE(line);
    const TestFolder folder;
    const auto waited = watched(folder.path("waited"), [](const char*, int64_t) {});
    Gate gate;
    const auto beside = watched(folder.path("beside"), [&](const char*, int64_t) { gate.pass(); });
    on_every_rank(line, [&](RankOfRun& run) {
      const auto plan = std::make_shared<const CheckpointPlan>(run.step);
      run.train(0, 3);
      EXPECT_EQ(save_checkpoint(*waited, *plan, {"run1", 1, "a"}, 3, {{"seed", 5}}, run.executor,
                                run.control),
                "");
      BackgroundSave save(beside, plan, run.executor, run.control);
      save.start({"run1", 1, "b"}, 3, {{"seed", 5}}, {});
      for (int64_t step = 3; step < 6; ++step) {
        run.train(step, step + 1);
        EXPECT_FALSE(save.advance().has_value());
      }
      EXPECT_TRUE(save.in_flight());
      run.control.barrier();
      gate.open();
      const std::optional<FinishedSave> finished = save.finish({});
      ASSERT_TRUE(finished.has_value());
      EXPECT_EQ(finished->failure, "");
      EXPECT_FALSE(save.in_flight());
      // Negative control: the steps have changed everything.
      EXPECT_EQ(save_checkpoint(*waited, *plan, {"run1", 1, "c"}, 6, {{"seed", 5}}, run.executor,
                                run.control),
                "");
    });
    EXPECT_TRUE(difference(*waited, *beside, 3).equal());
    EXPECT_FALSE(difference(*waited, *waited, 6).equal());
  }
}

// "saved 3", "failed 4: why", as the listener of a rank hears it.
using Heard = std::vector<std::string>;
Checkpoints::Listener listener_of(Heard& heard, Heard* notes = nullptr) {
  const auto hear = [&heard](const SaveNews& news) {
    const char* kind = news.kind == SaveNews::Kind::kSaved    ? "saved"
                       : news.kind == SaveNews::Kind::kFailed ? "failed"
                                                              : "skipped";
    heard.push_back(
        fmt::format("{} {}{}", kind, news.step, news.reason.empty() ? "" : ": " + news.reason));
  };
  return {.note =
              [notes](const std::string& text) {
                if (notes != nullptr) notes->push_back(text);
              },
          .begin = [](int64_t) {},
          .snapshot = [](int64_t) {},
          .news = hear,
          .wait = [] {}};
}

nlohmann::json no_state() { return {{"seed", 5}}; }

// A disk that is much too slow fills no terminal.
TEST(BackgroundSaveTest, ManyThatAreLeftOutAreSaidInAFewLines) {
  const TestFolder folder;
  Gate gate;
  on_every_rank("dp=2 zero=1 dtype=f32", [&](RankOfRun& run) {
    Heard heard, notes;
    const int rank = run.control.rank();
    const auto open = [&](const std::string& dir, bool) {
      return watched(dir, [&gate, rank](const char*, int64_t) {
        if (rank == 1) gate.pass();
      });
    };
    Checkpoints checkpoints(run.spec, run.step, run.executor, run.control,
                            listener_of(heard, &notes), open);
    checkpoints.begin(folder.path("ck"), {"run1", 1, ""}, false);
    for (int64_t step = 1; step <= 13; ++step) checkpoints.after_step(step, no_state);
    EXPECT_GE(heard.size(), 10U) << "each is news";
    EXPECT_EQ(notes.size(), rank == 0 ? 2U : 0U);
    if (notes.size() == 2) {
      EXPECT_TRUE(notes[0].starts_with("no checkpoint of step 2: the save of step 1 is still"));
      EXPECT_TRUE(notes[1].starts_with("10 checkpoints were left out so far")) << notes[1];
    }
    run.control.barrier();
    gate.open();
    checkpoints.finish();
  });
}

TEST(BackgroundSaveTest, WhileOneIsWrittenTheNextIsLeftOutAndSaid) {
  const TestFolder folder;
  Gate gate;
  on_every_rank("dp=2 zero=1 dtype=f32", [&](RankOfRun& run) {
    Heard heard;
    const int rank = run.control.rank();
    // The disk of rank 1 is the slow one.
    const auto open = [&](const std::string& dir, bool) {
      return watched(dir, [&gate, rank](const char*, int64_t) {
        if (rank == 1) gate.pass();
      });
    };
    Checkpoints checkpoints(run.spec, run.step, run.executor, run.control, listener_of(heard),
                            open);
    checkpoints.begin(folder.path("ck"), {"run1", 1, ""}, false);
    for (int64_t step = 1; step <= 3; ++step) {
      run.train(step - 1, step);
      checkpoints.after_step(step, no_state);
    }
    const std::string still = ": the save of step 1 is still being written";
    EXPECT_EQ(heard, (Heard{"skipped 2" + still, "skipped 3" + still}));
    run.control.barrier();
    gate.open();
    checkpoints.at_end(3, no_state);
    EXPECT_EQ(heard.size(), 4U);
    EXPECT_EQ(heard[2], "saved 1");
    EXPECT_EQ(heard[3], "saved 3");
    EXPECT_EQ(checkpoints.saves(), 2);
  });
  const std::unique_ptr<FileOps> files = real_files(folder.path("ck"));
  EXPECT_EQ(newest_good(*files, {})->step(), 3);
  EXPECT_EQ(list_saves(*files).size(), 2U);
}

// The disk refuses the change of every number in turn, on either rank, once or for good: full, in
// error or read-only is all the same to the run.
TEST(BackgroundSaveTest, WhatTheDiskRefusesCostsThatSaveAlone) {
  for (const int bad_rank : {0, 1}) {
    const TestFolder folder;
    std::atomic<int64_t> left = INT64_MAX;  // changes until the disk fails
    int64_t failures = 0;
    on_every_rank("dp=2 zero=1 dtype=f32", [&](RankOfRun& run) {
      Heard heard;
      const bool bad = run.control.rank() == bad_rank;
      const auto open = [&](const std::string& dir, bool) {
        return watched(dir, [&left, bad](const char* kind, int64_t) {
          if (bad && --left <= 0) {
            throw IoError(fmt::format("cannot {}: No space left on device", kind));
          }
        });
      };
      Checkpoints checkpoints(run.spec, run.step, run.executor, run.control, listener_of(heard),
                              open);
      checkpoints.begin(folder.path("ck"), {"run1", 1, ""}, false);
      checkpoints.after_step(1, no_state);
      checkpoints.finish();
      EXPECT_EQ(heard, Heard{"saved 1"});
      const auto reader = real_files(folder.path("ck"));
      int64_t good = 1, step = 1;
      for (int64_t change = 1;; ++change) {
        run.control.barrier();
        if (bad) left = change;
        run.control.barrier();
        heard.clear();
        checkpoints.after_step(++step, no_state);
        checkpoints.finish();
        run.control.barrier();
        if (bad) left = INT64_MAX;
        run.control.barrier();
        ASSERT_EQ(heard.size(), 1U);
        // Once COMMIT has its name the checkpoint is there, whatever fails after it.
        const int64_t newest = newest_good(*reader, {})->step();
        if (heard[0].starts_with("saved")) {
          EXPECT_EQ(newest, step);
          break;
        }
        if (run.control.rank() == 0) ++failures;
        EXPECT_NE(heard[0].find("No space left on device"), std::string::npos) << heard[0];
        EXPECT_TRUE(newest == good || newest == step) << newest;
        good = newest;
      }
      heard.clear();
      checkpoints.at_end(++step, no_state);
      EXPECT_EQ(heard, Heard{fmt::format("saved {}", step)});
    });
    EXPECT_GT(failures, 5);
    const std::unique_ptr<FileOps> files = real_files(folder.path("ck"));
    EXPECT_GT(newest_good(*files, {})->step(), 1);
  }
}

TEST(BackgroundSaveTest, ADiskThatNeverAnswersIsGivenUpAndNamed) {
  const TestFolder folder;
  Gate gate;
  on_every_rank("dp=2 zero=1 dtype=f32", [&](RankOfRun& run) {
    const int rank = run.control.rank();
    const auto files = watched(folder.path("ck"), [&gate, rank](const char*, int64_t) {
      if (rank == 1) gate.pass();
    });
    BackgroundSave save(files, std::make_shared<const CheckpointPlan>(run.step), run.executor,
                        run.control);
    save.start({"run1", 1, "b"}, 3, no_state(), {});
    const auto finished = save.finish({}, std::chrono::milliseconds(1));
    ASSERT_TRUE(finished.has_value());
    EXPECT_EQ(finished->failure, "rank 1: the disk has done nothing for 0 s");
    EXPECT_TRUE(save.given_up());
    EXPECT_NE(message_of<InternalError>([&] {
                save.start({"run1", 1, "c"}, 4, no_state(), {});
              }).find("step 3 is under way"),
              std::string::npos);
    run.control.barrier();
    gate.open();
  });
  EXPECT_FALSE(newest_good(*real_files(folder.path("ck")), {}).has_value());
}

}  // namespace
}  // namespace tessera
