#include "serve/ranks/process_frame_runner.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "launch/poll_set.h"
#include "launch/rank_list.h"
#include "serve/batch/frame_codec.h"
#include "serve/ranks/warm_up.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kEndTime{500};
constexpr milliseconds kLookEvery{100};  // whether anybody still waits
// The end of a process is heard of a moment after its socket is closed.
constexpr milliseconds kClosedTime{500};
// From there to the verdict.
constexpr milliseconds kVerdictTime{5'000};

}  // namespace

ProcessFrameRunner::ProcessFrameRunner(ProcessRunnerOptions options)
    : options_(std::move(options)), processes_(options_.processes), heard_(Clock::now()) {
  const int ranks = options_.processes.ranks;
  TESSERA_CHECK(options_.sampling_rank >= 0 && options_.sampling_rank < ranks, "rank {} of {}",
                options_.sampling_rank, ranks);
  for (UniqueFd& socket : processes_.take_sockets()) {
    const int rank = static_cast<int>(links_.size());
    links_.emplace_back(std::move(socket),
                        fmt::format("rank {} (pid {})", rank, processes_.pid(rank)));
  }
  ready_.assign(links_.size(), false);
  closed_since_.assign(links_.size(), RankLink::Time::max());
  send_all(LinkKind::kBegin, bytes_of(options_.task));
  await_ready();
  if (options_.warm_up) warm_up();
  if (options_.on_lost) processes_.set_on_verdict(options_.on_lost);
}

ProcessFrameRunner::~ProcessFrameRunner() {
  if (!processes_.verdict()) {
    for (RankLink& link : links_) {
      // One that does not take it is killed.
      (void)link.send(LinkKind::kEnd, {}, Clock::now(), processes_.verdict_fd());
    }
  }
  processes_.end(kEndTime);
}

void ProcessFrameRunner::await_ready() {
  const auto all_ready = [&] {
    return std::all_of(ready_.begin(), ready_.end(), [](bool one) { return one; });
  };
  while (!all_ready()) {
    wait_for_messages(Clock::now() + kLookEvery);
    require(!options_.cancelled || !options_.cancelled(), "not started: nobody waits for it");
    if (Clock::now() - heard_ < options_.start_timeout) continue;
    std::vector<int> late;
    for (size_t rank = 0; rank < ready_.size(); ++rank) {
      if (!ready_[rank]) late.push_back(static_cast<int>(rank));
    }
    throw Error(fmt::format("{}{}: not ready, and not a word for {:.0f} s", options_.processes.name,
                            rank_list(late),
                            std::chrono::duration<double>(options_.start_timeout).count()));
  }
}

void ProcessFrameRunner::warm_up() {
  for (const Frame& frame : warm_up_frames(shape())) {
    start(frame);
    (void)finish();
  }
}

void ProcessFrameRunner::send_all(LinkKind kind, const std::vector<std::byte>& body) {
  for (int rank = 0; rank < options_.processes.ranks; ++rank) send_to(rank, kind, body);
}

void ProcessFrameRunner::send_to(int rank, LinkKind kind, const std::vector<std::byte>& body) {
  RankLink& link = links_[static_cast<size_t>(rank)];
  const RankLink::Time deadline = Clock::now() + options_.send_timeout;
  switch (link.send(kind, body, deadline, processes_.verdict_fd())) {
    case RankLink::Sent::kAll:
      return;
    case RankLink::Sent::kLate:
      processes_.condemn(rank,
                         fmt::format("did not take a frame for {:.0f} s and was killed",
                                     std::chrono::duration<double>(options_.send_timeout).count()));
      break;
    case RankLink::Sent::kClosed:
    case RankLink::Sent::kWoken:
      break;
  }
  fail();
}

void ProcessFrameRunner::start(const Frame& frame) {
  throw_if_lost();
  TESSERA_CHECK(static_cast<int>(under_way_.size()) < shape().stages,
                "{} frames are under way in {} stages", under_way_.size(), shape().stages);
  under_way_.push_back(
      {frame.number, static_cast<int64_t>(frame.tokens.size()), frame.masks_follow});
  tell_watch();
  send_all(LinkKind::kFrame, encode(frame));
}

void ProcessFrameRunner::allow(FrameMasks masks) {
  throw_if_lost();
  TESSERA_CHECK(!under_way_.empty() && under_way_.back().awaits_masks &&
                    under_way_.back().number == masks.number,
                "masks of frame {}, which does not wait for any", masks.number);
  send_to(options_.sampling_rank, LinkKind::kMasks, encode(masks));
  under_way_.back().awaits_masks = false;
  tell_watch();
}

FrameResult ProcessFrameRunner::finish() {
  TESSERA_CHECK(!under_way_.empty(), "no frame is under way");
  const RankLink::Time deadline = Clock::now() + options_.frame_timeout;
  while (results_.empty()) {
    wait_for_messages(deadline);
    if (!results_.empty() || Clock::now() < deadline) continue;
    processes_.condemn(options_.sampling_rank,
                       fmt::format("gave no result for {:.0f} s and was killed, in frame {}",
                                   std::chrono::duration<double>(options_.frame_timeout).count(),
                                   under_way_.front().number));
    fail();
  }
  FrameResult result = std::move(results_.front());
  results_.pop_front();
  const uint64_t number = under_way_.front().number;
  if (result.number != number) {
    processes_.condemn(options_.sampling_rank,
                       fmt::format("sent the result of frame {} instead of {} and was killed",
                                   result.number, number));
    fail();
  }
  under_way_.pop_front();
  tell_watch();
  return result;
}

void ProcessFrameRunner::tell_watch() {
  const bool has_all = !under_way_.empty() && !under_way_.front().awaits_masks;
  if (!has_all) return processes_.frames_under_way(std::nullopt);
  FramesUnderWay frames{.oldest = under_way_.front().number};
  for (const UnderWay& one : under_way_) frames.tokens = std::max(frames.tokens, one.tokens);
  processes_.frames_under_way(frames);
}

void ProcessFrameRunner::wait_for_messages(RankLink::Time deadline) {
  throw_if_lost();
  PollSet poll;
  poll.add(processes_.verdict_fd(), POLLIN);
  std::vector<size_t> slots;
  milliseconds time = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  for (const RankLink& link : links_) {
    slots.push_back(link.closed() ? PollSet::kNone : poll.add(link.fd(), POLLIN));
    if (link.closed()) time = std::min(time, kLookEvery);
  }
  poll.wait(std::max(time, milliseconds(0)));
  throw_if_lost();
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    if (poll.ready(slots[rank])) take_from(static_cast<int>(rank));
  }
  look_at_closed();
}

void ProcessFrameRunner::take_from(int rank) {
  RankLink& link = links_[static_cast<size_t>(rank)];
  try {
    while (std::optional<LinkMessage> message = link.take()) hear(rank, std::move(*message));
  } catch (const Error& error) {
    processes_.condemn(rank, fmt::format("was killed: {}", error.what()));
    fail();
  }
  if (link.closed()) closed_since_[static_cast<size_t>(rank)] = Clock::now();
}

void ProcessFrameRunner::hear(int rank, LinkMessage message) {
  heard_ = Clock::now();
  switch (message.kind) {
    case LinkKind::kState:
      if (options_.on_state) {
        options_.on_state(
            fmt::format("{}rank {} {}", options_.processes.name, rank, text_from(message.body)));
      }
      return;
    case LinkKind::kReady:
      ready_[static_cast<size_t>(rank)] = true;
      return;
    case LinkKind::kResult:
      require(rank == options_.sampling_rank && results_.size() < under_way_.size(),
              "it sent a result that nobody asked for");
      results_.push_back(decode_frame_result(message.body, shape()));
      return;
    case LinkKind::kTimes:
      require(options_.task.times, "it sent times that nobody asked for");
      times_.push_back({rank, times_from(message.body)});
      return;
    case LinkKind::kBegin:
    case LinkKind::kFrame:
    case LinkKind::kMasks:
    case LinkKind::kEnd:
      break;
  }
  throw Error(fmt::format("it sent a message of kind {}", static_cast<int>(message.kind)));
}

// A process that closes its socket and goes on is of no use.
void ProcessFrameRunner::look_at_closed() {
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank].closed() || Clock::now() - closed_since_[rank] < kClosedTime) continue;
    processes_.condemn(static_cast<int>(rank), "closed its socket and was killed");
    fail();
  }
}

void ProcessFrameRunner::throw_if_lost() {
  if (processes_.verdict()) fail();
}

void ProcessFrameRunner::fail() {
  wait_readable(processes_.verdict_fd(), kVerdictTime);
  const std::optional<RankVerdict> verdict = processes_.verdict();
  if (!verdict) throw Error("a rank does not answer, and nothing is known of it");
  throw Error(verdict->message, static_cast<ExitCode>(verdict->exit_code));
}

std::vector<RankFrameTimes> ProcessFrameRunner::take_times() { return std::exchange(times_, {}); }

}  // namespace tessera::serve
