// What may come to the port of a rendezvous, or lie where its file is meant to be: anything.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/damage.h"
#include "launch/rendezvous/meeting_file.h"
#include "launch/rendezvous/rendezvous_frame.h"

namespace tessera {
namespace {

using testing::Damage;
using testing::TryMany;

constexpr size_t kMostBody = 4096;

void parse(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kHello:
      (void)parse_hello(frame);
      break;
    case FrameKind::kTable:
      (void)parse_table(frame);
      break;
    case FrameKind::kRefused:
      (void)parse_refusal(frame);
      break;
    case FrameKind::kAccepted:
    case FrameKind::kChallenge:
    case FrameKind::kProof:
      (void)parse_text(frame);
      break;
  }
}

// Takes frames until there is no more, as a host does with what a guest has sent.
void expect_errors_or_frames(std::string bytes) {
  const size_t all = bytes.size();
  try {
    for (size_t frames = 0; frames <= all; ++frames) {
      const std::optional<Frame> frame = take_frame(bytes, kMostBody);
      if (!frame) return;
      EXPECT_LE(frame->body.size(), kMostBody);
      parse(*frame);
    }
  } catch (const Error&) {
  }
  EXPECT_LE(bytes.size(), all);
}

TEST(RendezvousFuzzTest, FramesOfAnyBytesAreReadOrRefused) {
  const std::string streams[] = {
      to_bytes(Hello{.nonce = "random", .rank = 3, .size = 8, .payload = "here"}),
      to_bytes(Table{{"zero", "", std::string(300, 'x')}, std::string(32, 'p')}),
      to_bytes(Refusal{.wrongly_started = true, .reason = "no"}),
      to_bytes(FrameKind::kAccepted, "proof") + to_bytes(Table{{"one"}, "proof"})};
  Damage damage(3);
  for (TryMany tries(4'000, 100'000); tries.next();) {
    expect_errors_or_frames(damage.of(streams[damage.roll(0, 3)]));
    // Lengths of texts inside a body whose own length is right.
    Frame frame{.kind = static_cast<FrameKind>(damage.roll(1, 6)), .body = ""};
    const std::string& whole = streams[damage.roll(0, 2)];
    frame.body = damage.of(whole.substr(16));
    if (frame.body.size() > kMostBody) continue;
    expect_errors_or_frames(to_bytes(frame));
  }
}

// A count or a length that no body can have is refused before anything of that size is made.
TEST(RendezvousFuzzTest, NothingIsAllocatedForALengthThatIsNotThere) {
  const std::string huge("\xff\xff\xff\xff", 4);
  EXPECT_THROW(parse_table({.kind = FrameKind::kTable, .body = huge}), Error);
  EXPECT_THROW(parse_hello({.kind = FrameKind::kHello, .body = huge}), Error);
  EXPECT_THROW(parse_refusal({.kind = FrameKind::kRefused, .body = huge + huge}), Error);
  EXPECT_THROW(parse_text({.kind = FrameKind::kProof, .body = huge}), Error);
  std::string frame = to_bytes(Frame{.kind = FrameKind::kAccepted, .body = ""});
  frame.replace(frame.size() - 4, 4, huge);
  EXPECT_THROW(take_frame(frame, kMostBody), Error);
}

TEST(RendezvousFuzzTest, MeetingFilesOfAnyBytesAreReadOrNot) {
  const std::string whole =
      to_text({.addresses = {"127.0.0.1", "::1"},
               .port = 4711,
               .token = "0123456789abcdef",
               .host = {.name = "a", .boot = "b", .pid_namespace = "c", .net_namespace = ""},
               .pid = 12,
               .started = 34});
  EXPECT_TRUE(parse_meeting_note(whole).has_value());
  Damage damage(5);
  int64_t read = 0, tried = 0;
  for (TryMany tries(4'000, 100'000); tries.next(); ++tried) {
    read += parse_meeting_note(damage.of(whole)).has_value();
  }
  EXPECT_LT(read, tried);
}

}  // namespace
}  // namespace tessera
