#include "launch/rendezvous/rendezvous_guest.h"

#include <poll.h>

#include <optional>

#include "comm/communicator.h"
#include "launch/rendezvous/rendezvous.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerTime{3'000};  // rank 0 answers a hello at once, if it is rank 0
constexpr size_t kMaxAnswerBytes = 16 * 1024;

// The next frame, or none when the peer closed the connection or the time was over.
std::optional<Frame> receive_frame(int fd, std::string& bytes, size_t max_body, Deadline deadline) {
  while (true) {
    if (std::optional<Frame> frame = take_frame(bytes, max_body)) return frame;
    if (!wait_ready(fd, POLLIN, deadline)) return std::nullopt;
    if (receive_some(fd, bytes) == Received::kClosed) return std::nullopt;
  }
}

std::vector<std::string> table_from(const Acceptance& from, const std::optional<Frame>& frame) {
  require(frame.has_value(), "it went away before all ranks had come");
  if (frame->kind == FrameKind::kRefused) throw CommError(parse_refusal(*frame).reason);
  std::vector<std::string> table = parse_table(*frame);
  require(table.size() == from.hello.size, "it introduces {} ranks instead of {}", table.size(),
          from.hello.size);
  return table;
}

}  // namespace

Acceptance introduce(const std::string& host, int port, const Hello& hello, Deadline connect_by) {
  Acceptance acceptance;
  acceptance.place = address_text(host, port);
  acceptance.hello = hello;
  acceptance.fd = connect_to(host, port, connect_by);
  const int fd = acceptance.fd.get();
  const Deadline answer_by = Clock::now() + kAnswerTime;
  require(send_all(fd, to_bytes(hello), answer_by), "{} does not listen", acceptance.place);
  std::optional<Frame> frame;
  try {
    frame = receive_frame(fd, acceptance.bytes, kMaxAnswerBytes, answer_by);
  } catch (const Error& error) {
    throw Error(fmt::format("{} is no rendezvous: {}", acceptance.place, error.what()));
  }
  require(frame.has_value(), "{} does not answer", acceptance.place);
  if (frame->kind == FrameKind::kRefused) {
    throw RefusedError(fmt::format("rank 0 at {} refuses rank {} of {}: {}", acceptance.place,
                                   hello.rank, hello.size, parse_refusal(*frame).reason));
  }
  require(frame->kind == FrameKind::kAccepted, "{} answers with frame {}", acceptance.place,
          static_cast<uint32_t>(frame->kind));
  return acceptance;
}

std::vector<std::string> await_table(Acceptance& acceptance, milliseconds time) {
  const Deadline deadline = Clock::now() + time;
  const size_t max_body = acceptance.hello.size * (Rendezvous::kMaxPayloadBytes + 4) + 4;
  try {
    const std::optional<Frame> frame =
        receive_frame(acceptance.fd.get(), acceptance.bytes, max_body, deadline);
    require(frame || Clock::now() < deadline, "it did not introduce the ranks within {:.1f} s",
            std::chrono::duration<double>(time).count());
    return table_from(acceptance, frame);
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    throw CommError(fmt::format("rank {} waited for the other ranks at rank 0, {}: {}",
                                acceptance.hello.rank, acceptance.place, error.what()));
  }
}

}  // namespace tessera
