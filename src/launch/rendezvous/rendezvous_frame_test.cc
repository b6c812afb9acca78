#include "launch/rendezvous/rendezvous_frame.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace tessera {
namespace {

const Hello kHello = {.nonce = "random", .rank = 3, .size = 8, .payload = std::string("a\0b", 3)};

TEST(RendezvousFrameTest, BytesAreAsDocumented) {
  EXPECT_EQ(to_bytes(Refusal{.wrongly_started = true, .reason = "no"}),
            std::string("TSRV\2\0\0\0\3\0\0\0\12\0\0\0\1\0\0\0\2\0\0\0no", 26));
}

TEST(RendezvousFrameTest, ReadsWhatItWrote) {
  const std::vector<std::string> payloads = {"", "one", std::string(1000, 'x')};
  std::string bytes = to_bytes(kHello) + to_bytes(FrameKind::kChallenge, "text") +
                      to_bytes(Table{payloads, "proof"});
  const Hello hello = parse_hello(take_frame(bytes, 100).value());
  EXPECT_EQ(hello.nonce, kHello.nonce);
  EXPECT_EQ(hello.rank, kHello.rank);
  EXPECT_EQ(hello.size, kHello.size);
  EXPECT_EQ(hello.payload, kHello.payload);
  EXPECT_EQ(parse_text(take_frame(bytes, 8).value()), "text");
  const Table table = parse_table(take_frame(bytes, 2000).value());
  EXPECT_EQ(table.payloads, payloads);
  EXPECT_EQ(table.proof, "proof");
  EXPECT_EQ(bytes, "");
}

// A proof is of all that was said, so that no part of it can be another's.
TEST(RendezvousFrameTest, AProofIsOfEverything) {
  const std::vector<std::string> payloads = {"zero", "one"};
  const std::string proof = proof_of("guest", kHello, "challenge", "token", payloads);
  EXPECT_EQ(proof.size(), 32U);
  EXPECT_EQ(proof, proof_of("guest", kHello, "challenge", "token", payloads));
  const std::vector<std::string> others = {"zero", "two"}, cut = {"zeroone"};
  Hello hello = kHello;
  hello.rank = 4;
  for (const std::string& other : {proof_of("host", kHello, "challenge", "token", payloads),
                                   proof_of("guest", hello, "challenge", "token", payloads),
                                   proof_of("guest", kHello, "challengf", "token", payloads),
                                   proof_of("guest", kHello, "challenge", "tokem", payloads),
                                   proof_of("guest", kHello, "challenge", "token", others),
                                   proof_of("guest", kHello, "challenge", "token", cut),
                                   proof_of("guest", kHello, "challenge", "token")}) {
    EXPECT_NE(proof, other);
  }
}

TEST(RendezvousFrameTest, WaitsForTheWholeFrame) {
  const std::string whole = to_bytes(kHello);
  for (size_t length = 0; length < whole.size(); ++length) {
    std::string bytes = whole.substr(0, length);
    EXPECT_FALSE(take_frame(bytes, 100).has_value()) << length;
    EXPECT_EQ(bytes.size(), length);
  }
}

TEST(RendezvousFrameTest, RefusesAnythingElseAtOnce) {
  for (const std::string text : {"GET / HTTP/1.1\r\n", "T.", "X", "TSRX"}) {
    std::string bytes = text;
    EXPECT_THROW(take_frame(bytes, 100), Error) << text;
  }
  std::string bytes = to_bytes(kHello).substr(0, 16);  // the body need not be there to be too long
  EXPECT_THROW(take_frame(bytes, 20), Error);
}

// Every single change of a frame is read as something or refused, never out of bounds.
TEST(RendezvousFrameTest, SurvivesDamage) {
  const std::vector<std::string> payloads = {"zero", "one"};
  std::mt19937 random(1);
  for (const std::string& whole :
       {to_bytes(kHello), to_bytes(Table{payloads, "proof"}), to_bytes(Refusal{.reason = "no"})}) {
    for (size_t place = 0; place < whole.size(); ++place) {
      for (int round = 0; round < 8; ++round) {
        std::string bytes = whole;
        bytes[place] = static_cast<char>(random());
        try {
          const std::optional<Frame> frame = take_frame(bytes, 200);
          if (!frame) continue;
          if (frame->kind == FrameKind::kHello) (void)parse_hello(*frame);
          if (frame->kind == FrameKind::kTable) (void)parse_table(*frame);
          if (frame->kind == FrameKind::kRefused) (void)parse_refusal(*frame);
        } catch (const Error&) {
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
