#include "launch/hosts/control_frame.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "launch/hosts/host_messages.h"
#include "launch/rendezvous/frame_body.h"

namespace tessera {
namespace {

const Seal kSeal = {.key = "key", .from_host = true, .number = 7};
const ControlFrame kFrame = {
    .kind = ControlKind::kEnd, .run = 0x1122334455667788, .generation = 9, .body = "abc"};

TEST(ControlFrameTest, BytesAreAsDocumented) {
  const std::string bytes = to_bytes(kFrame, Seal{});
  EXPECT_EQ(bytes.substr(0, 43),
            std::string("TSCT\2\0\0\0\20\0\0\0\3\0\0\0"
                        "\x88\x77\x66\x55\x44\x33\x22\x11\11\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                        "abc",
                        43));
  EXPECT_EQ(bytes.substr(43), std::string(32, '\0'));  // nobody has a key yet
}

TEST(ControlFrameTest, ReadsWhatItWrote) {
  const ControlFrame frame = parse_control(to_bytes(kFrame, kSeal), kSeal);
  EXPECT_EQ(frame.kind, kFrame.kind);
  EXPECT_EQ(frame.run, kFrame.run);
  EXPECT_EQ(frame.generation, kFrame.generation);
  EXPECT_EQ(frame.body, kFrame.body);
}

TEST(ControlFrameTest, AsksForNoByteBeyondTheFrame) {
  const std::string whole = to_bytes(kFrame, kSeal);
  for (size_t length = 0; length < whole.size(); ++length) {
    const size_t missing = bytes_missing(whole.substr(0, length), 100);
    EXPECT_GT(missing, 0U);
    EXPECT_LE(length + missing, whole.size());
  }
  EXPECT_EQ(bytes_missing(whole, 100), 0U);
}

TEST(ControlFrameTest, RefusesAFrameThatIsRepeatedTurnedRoundOrOfAnotherConnection) {
  const std::string bytes = to_bytes(kFrame, kSeal);
  EXPECT_THROW(parse_control(bytes, {.key = "key", .from_host = true, .number = 8}), Error);
  EXPECT_THROW(parse_control(bytes, {.key = "key", .from_host = false, .number = 7}), Error);
  EXPECT_THROW(parse_control(bytes, {.key = "other", .from_host = true, .number = 7}), Error);
  EXPECT_THROW(parse_control(to_bytes(kFrame, Seal{.from_host = true, .number = 7}), kSeal), Error);
}

TEST(ControlFrameTest, RefusesAnythingElseBeforeItIsThere) {
  for (const std::string text : {"GET / HTTP/1.1\r\n", "T.", "X", "TSCX"}) {
    EXPECT_THROW((void)bytes_missing(text, 100), Error) << text;
  }
  const std::string bytes = to_bytes(kFrame, kSeal).substr(0, kControlHeadBytes);
  EXPECT_THROW((void)bytes_missing(bytes, 2), Error);  // the body need not be there to be too long
}

// With a seal every single change is noticed.
TEST(ControlFrameTest, NoticesEveryChange) {
  std::mt19937 random(1);
  const std::string whole = to_bytes(kFrame, kSeal);
  for (size_t place = 0; place < whole.size(); ++place) {
    std::string bytes = whole;
    bytes[place] = static_cast<char>(bytes[place] ^ static_cast<char>(1U << (random() % 8)));
    EXPECT_THROW(
        {
          if (bytes_missing(bytes, 1000) != 0) throw Error("another length");
          (void)parse_control(bytes, kSeal);
        },
        Error)
        << place;
  }
}

GenerationReport full_report() {
  GenerationReport report{.exit_code = 1, .message = "no", .opened = true};
  report.loss = RankLoss{.verdict = Verdict::kPartitioned,
                         .generation = 3,
                         .rank = 5,
                         .pid = 77,
                         .exit = {.code = 0, .signal = 9},
                         .section = RunSection::kSave,
                         .step = 12,
                         .reason = "why",
                         .unix_time = 1.5,
                         .curable = true};
  return report;
}

GenerationStart full_start() {
  return {.first_rank = 1,
          .ranks = 1,
          .world = 2,
          .addresses = {"a:1", "[b::1]:2"},
          .environment = {"X=1"}};
}

TEST(HostMessagesTest, ReadWhatTheyWrote) {
  const HostHello hello = parse_hello(to_body(HostHello{.host = 3, .incarnation = "me"}));
  EXPECT_EQ(hello.host, 3);
  EXPECT_EQ(hello.incarnation, "me");
  const GenerationStart start = parse_start(to_body(full_start()));
  EXPECT_EQ(start.first_rank, 1);
  EXPECT_EQ(start.addresses, full_start().addresses);
  EXPECT_EQ(start.environment, full_start().environment);
  const GenerationReport report = parse_report(to_body(full_report()));
  EXPECT_EQ(report.message, "no");
  EXPECT_TRUE(report.opened);
  ASSERT_TRUE(report.loss.has_value());
  EXPECT_EQ(report.loss->verdict, Verdict::kPartitioned);
  EXPECT_EQ(report.loss->rank, 5);
  EXPECT_EQ(report.loss->exit.signal, 9);
  EXPECT_EQ(report.loss->section, RunSection::kSave);
  EXPECT_EQ(report.loss->step, 12);
  EXPECT_EQ(report.loss->unix_time, 1.5);
  EXPECT_TRUE(report.loss->curable);
}

TEST(HostMessagesTest, RefuseRanksThatCannotBe) {
  GenerationStart start = full_start();
  start.first_rank = 2;
  EXPECT_THROW(parse_start(to_body(start)), Error);
  start = full_start();
  start.addresses.pop_back();
  EXPECT_THROW(parse_start(to_body(start)), Error);
}

// Every change of a body, and every end of it, is read as something or refused.
TEST(HostMessagesTest, SurviveDamage) {
  std::mt19937 random(2);
  const auto read = [](const std::string& bytes) {
    for (const auto& parse : {+[](const std::string& body) { (void)parse_hello(body); },
                              +[](const std::string& body) { (void)parse_start(body); },
                              +[](const std::string& body) { (void)parse_report(body); },
                              +[](const std::string& body) { (void)parse_texts(body); }}) {
      try {
        parse(bytes);
      } catch (const Error&) {
      }
    }
  };
  for (const std::string& whole : {to_body(HostHello{.host = 3, .incarnation = "me"}),
                                   to_body(full_start()), to_body(full_report())}) {
    for (size_t place = 0; place < whole.size(); ++place) {
      read(whole.substr(0, place));
      for (int round = 0; round < 8; ++round) {
        std::string bytes = whole;
        bytes[place] = static_cast<char>(random());
        read(bytes);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
