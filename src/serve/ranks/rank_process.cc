#include "serve/ranks/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/failure.h"
#include "base/text/printable.h"
#include "comm/shm/shm_world.h"
#include "launch/poll_set.h"
#include "launch/rank_failure.h"
#include "launch/stop_signals.h"
#include "serve/batch/frame_codec.h"
#include "serve/ranks/frame_watch.h"
#include "serve/ranks/rank_link.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The front reads whenever something comes: one that does not for so long is as good as gone.
constexpr milliseconds kSendTime{60'000};
// Far more frames than any pipeline has stages: a front that sends more does not count.
constexpr size_t kMostWaiting = 256;

// Takes messages off the link as they come, so that the front never waits for a frame that is being
// computed, and so that the rank ends when the front does, whatever it is at.
class Inbox {
 public:
  explicit Inbox(RankLink& link)
      : link_(link), stop_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
  ~Inbox() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Throws Error for what is no message.
  LinkMessage next() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return !messages_.empty() || error_; });
    if (messages_.empty()) std::rethrow_exception(error_);
    LinkMessage message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  void run() {
    PollSet poll;
    while (true) {
      poll.clear();
      const size_t link = poll.add(link_.fd(), POLLIN);
      const size_t stop = poll.add(stop_.get(), POLLIN);
      poll.wait(milliseconds(60'000));
      if (poll.ready(stop)) return;
      if (poll.ready(link) && !take_all()) return;
    }
  }

  bool take_all() {
    try {
      while (std::optional<LinkMessage> message = link_.take()) {
        const std::scoped_lock lock(mutex_);
        require(messages_.size() < kMostWaiting, "{} sent {} messages that nobody asked for",
                link_.who(), kMostWaiting);
        ended_ = ended_ || message->kind == LinkKind::kEnd;
        messages_.push_back(std::move(*message));
        came_.notify_one();
      }
    } catch (const Error&) {
      const std::scoped_lock lock(mutex_);
      error_ = std::current_exception();
      came_.notify_one();
      return false;
    }
    if (!link_.closed()) return true;
    // Nobody is left to tell.
    if (!ended_) ::_exit(static_cast<int>(ExitCode::kRequeue));
    return false;
  }

  RankLink& link_;
  UniqueFd stop_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<LinkMessage> messages_;
  std::exception_ptr error_;
  bool ended_ = false;
  std::thread thread_;
};

class RankOfServer {
 public:
  RankOfServer(const LaunchContext& context, const std::vector<Fault>& faults)
      : context_(context),
        failpoints_(faults, context.rank, context.generation),
        link_(UniqueFd(context.frames_fd), "the process that serves"),
        inbox_(link_) {}

  int run(const MakeRankWorker& make) {
    try {
      serve(make);
      return 0;
    } catch (const std::exception& error) {
      const Failure failure = failure_of(error);
      if (world_) {
        abort_as_rank(*world_, failure.text);
      } else {
        fmt::print(stderr, "tessera: {}\n", printable(failure.text));
      }
      return static_cast<int>(failure.code);
    }
  }

 private:
  void serve(const MakeRankWorker& make) {
    LinkMessage first = inbox_.next();
    if (first.kind == LinkKind::kEnd) return;
    require(first.kind == LinkKind::kBegin, "{} sent a message of kind {} before the first",
            link_.who(), static_cast<int>(first.kind));
    const RankTask task = task_from(first.body);
    world_ =
        attach_shm_world({.fd = context_.shm_fd, .rank = context_.rank, .timeout = task.timeout});
    failpoints_.pass("serve.load");
    const auto tell = [&](const std::string& text) {
      report(0);
      send(LinkKind::kState, bytes_of(text));
    };
    const std::unique_ptr<RankWorker> worker = make({*world_, task, tell});
    send(LinkKind::kReady, {});
    while (true) {
      const LinkMessage message = inbox_.next();
      if (message.kind == LinkKind::kEnd) return;
      require(message.kind == LinkKind::kFrame, "{} sent a message of kind {} instead of a frame",
              link_.who(), static_cast<int>(message.kind));
      compute(*worker, task, decode_frame(message.body, task.shape));
    }
  }

  void compute(RankWorker& worker, const RankTask& task, const Frame& frame) {
    report(step_in_frame(frame.number));
    failpoints_.pass("serve.frame", static_cast<int64_t>(frame.number));
    const int64_t begin_ns = frame_clock_ns();
    const FrameResult result = worker.run(frame, [&] { return next_masks(task, frame); });
    const FrameTimes times =
        task.times ? frame_times(frame.number, begin_ns, worker.waits()) : FrameTimes();
    report(step_after_frame(frame.number));
    failpoints_.pass("serve.result", static_cast<int64_t>(frame.number));
    if (task.times) send(LinkKind::kTimes, bytes_of(times));
    if (worker.samples()) send(LinkKind::kResult, encode(result));
  }

  // What the front sends right behind the frame.
  FrameMasks next_masks(const RankTask& task, const Frame& frame) {
    const LinkMessage message = inbox_.next();
    require(message.kind == LinkKind::kMasks,
            "{} sent a message of kind {} instead of the masks of frame {}", link_.who(),
            static_cast<int>(message.kind), frame.number);
    return decode_frame_masks(message.body, task.shape);
  }

  void report(int64_t step) {
    report_run(*world_,
               {.section = step == 0 ? RunSection::kSetup : RunSection::kStep, .step = step},
               context_.rank == 0);
  }

  void send(LinkKind kind, const std::vector<std::byte>& body) {
    const RankLink::Sent sent = link_.send(kind, body, Clock::now() + kSendTime);
    require(sent == RankLink::Sent::kAll, "{} does not read what this rank sends", link_.who());
  }

  const LaunchContext& context_;
  Failpoints failpoints_;
  RankLink link_;
  Inbox inbox_;
  std::unique_ptr<CommWorld> world_;
};

}  // namespace

int run_rank_process(const LaunchContext& context, const std::vector<Fault>& faults,
                     const MakeRankWorker& make) {
  require_config(context.frames_fd >= 0 && context.shm_fd >= 0,
                 "this starts a rank of a server, which 'tessera serve' does by itself");
  // The front says when to end, and it alone: it waits until all answers are complete.
  for (const int signal : kStopSignals) ::signal(signal, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  for (const int fd : {context.frames_fd, context.shm_fd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return RankOfServer(context, faults).run(make);
}

}  // namespace tessera::serve
