#include "launch/rendezvous/rendezvous_guest.h"

#include <poll.h>

#include <optional>

#include "comm/communicator.h"
#include "launch/rendezvous/rendezvous.h"
#include "launch/rendezvous/token.h"

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
  Table table = parse_table(*frame);
  require(same_token(table.proof,
                     proof_of("table", from.hello, from.challenge, from.token, table.payloads)),
          "it introduces ranks without knowing the token of the run");
  require(table.payloads.size() == from.hello.size, "it introduces {} ranks instead of {}",
          table.payloads.size(), from.hello.size);
  return std::move(table.payloads);
}

// Rank 0's next answer, of the kind that is due.
std::string answer_of(Acceptance& from, FrameKind due, Deadline deadline) {
  std::optional<Frame> frame;
  try {
    frame = receive_frame(from.fd.get(), from.bytes, kMaxAnswerBytes, deadline);
  } catch (const Error& error) {
    throw Error(fmt::format("{} is no rendezvous: {}", from.place, error.what()));
  }
  require(frame.has_value(), "{} does not answer", from.place);
  if (frame->kind == FrameKind::kRefused) {
    throw RefusedError(fmt::format("rank 0 at {} refuses rank {} of {}: {}", from.place,
                                   from.hello.rank, from.hello.size, parse_refusal(*frame).reason));
  }
  require(frame->kind == due, "{} answers with frame {}", from.place,
          static_cast<uint32_t>(frame->kind));
  return parse_text(*frame);
}

}  // namespace

Acceptance introduce(const std::string& host, int port, const Hello& hello,
                     const std::string& token, Deadline connect_by) {
  Acceptance acceptance;
  acceptance.place = address_text(host, port);
  acceptance.hello = hello;
  acceptance.hello.nonce = random_token();
  acceptance.token = token;
  acceptance.fd = connect_to(host, port, connect_by);
  const int fd = acceptance.fd.get();
  const Deadline answer_by = Clock::now() + kAnswerTime;
  const auto say = [&](const std::string& bytes) {
    require(send_all(fd, bytes, answer_by), "{} does not listen", acceptance.place);
  };
  const auto proof = [&](std::string_view word) {
    return proof_of(word, acceptance.hello, acceptance.challenge, token);
  };
  say(to_bytes(acceptance.hello));
  acceptance.challenge = answer_of(acceptance, FrameKind::kChallenge, answer_by);
  say(to_bytes(FrameKind::kProof, proof("guest")));
  const std::string shown = answer_of(acceptance, FrameKind::kAccepted, answer_by);
  require(same_token(shown, proof("host")), "{} does not know the token of the run",
          acceptance.place);
  return acceptance;
}

std::vector<std::string> await_table(Acceptance& acceptance, milliseconds time) {
  const Deadline deadline = Clock::now() + time;
  const size_t max_body = acceptance.hello.size * (Rendezvous::kMaxPayloadBytes + 4) + 64;
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
