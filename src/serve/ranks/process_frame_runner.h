// Ranks as processes of this host. The process that has this object is no rank: it sends every
// frame to all of them, and gets the tokens from the one that samples.
//
// A rank that ends, is stopped or hangs ends the others (rank_processes.h): start() and finish()
// then throw Error, with one message and the exit code of the rank. Bounds, with the default
// options: 0.5 s for one that ends, 1.5 s for one that is stopped, 4 s for one that hangs.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "serve/frame.h"
#include "serve/ranks/rank_link.h"
#include "serve/ranks/rank_messages.h"
#include "serve/ranks/rank_processes.h"

namespace tessera::serve {

struct ProcessRunnerOptions {
  RankProcessesOptions processes;
  RankTask task;  // its shape is that of the runner
  int sampling_rank = 0;
  // Computes a frame before it returns, so that the first request does not wait for what the first
  // frame has to do, and so that it is known how long frames take.
  bool warm_up = true;
  // Until all are ready, after the last sign of life of any.
  std::chrono::milliseconds start_timeout{600'000};
  std::chrono::milliseconds send_timeout{10'000};    // for a rank to take a frame
  std::chrono::milliseconds frame_timeout{900'000};  // for a result, however far ranks come
  // "rank 1 loads its weights"
  std::function<void(const std::string&)> on_state = nullptr;
  std::function<bool()> cancelled = nullptr;  // nobody waits for them to be ready any longer
  // Ranks are gone; on a thread of its own, also while nothing is asked of them, before anything
  // here throws because of it.
  std::function<void(const RankVerdict&)> on_lost = nullptr;
};

class ProcessFrameRunner final : public TimedFrameRunner {
 public:
  // Returns when all ranks are ready; throws Error where one is not.
  explicit ProcessFrameRunner(ProcessRunnerOptions options);
  // Ranks end in order, or are killed half a second later.
  ~ProcessFrameRunner() override;
  ProcessFrameRunner(const ProcessFrameRunner&) = delete;
  ProcessFrameRunner& operator=(const ProcessFrameRunner&) = delete;

  [[nodiscard]] const ServeShape& shape() const override { return options_.task.shape; }
  void start(const Frame& frame) override;
  void allow(FrameMasks masks) override;
  FrameResult finish() override;
  [[nodiscard]] uint64_t progress() const override { return processes_.progress(); }

  [[nodiscard]] pid_t pid(int rank) const { return processes_.pid(rank); }
  // Where RankTask::times asked for them.
  [[nodiscard]] std::vector<RankFrameTimes> take_times() override;

 private:
  void await_ready();
  void warm_up();
  void send_all(LinkKind kind, const std::vector<std::byte>& body);
  void send_to(int rank, LinkKind kind, const std::vector<std::byte>& body);
  // What has come from the ranks; waits for something at most until `deadline`.
  void wait_for_messages(RankLink::Time deadline);
  void take_from(int rank);
  void hear(int rank, LinkMessage message);
  void look_at_closed();
  [[noreturn]] void fail();  // once a rank is known to be lost
  void throw_if_lost();
  void tell_watch();

  struct UnderWay {
    uint64_t number = 0;
    int64_t tokens = 0;
    bool awaits_masks = false;  // of ours: its ranks may stand still
  };

  ProcessRunnerOptions options_;
  RankProcesses processes_;
  std::deque<RankLink> links_;
  std::vector<RankLink::Time> closed_since_;
  std::vector<bool> ready_;
  RankLink::Time heard_;
  std::deque<UnderWay> under_way_;
  std::deque<FrameResult> results_;
  std::vector<RankFrameTimes> times_;
};

}  // namespace tessera::serve
