#include "serve/ranks/rank_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "serve/ranks/rank_messages.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPlenty{20'000};

struct Links {
  Links() : Links(make_link_pair()) {}
  explicit Links(LinkPair pair)
      : front(std::move(pair.front), "rank 1", 1 << 22),
        rank(std::move(pair.rank), "the front", 1 << 22) {}
  RankLink front;
  RankLink rank;

  void write_raw(const std::string& bytes) const {
    ASSERT_EQ(::send(rank.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
};

std::optional<LinkMessage> await(RankLink& link) {
  while (true) {
    if (std::optional<LinkMessage> message = link.take()) return message;
    if (link.closed() || !wait_readable(link.fd(), kPlenty)) return std::nullopt;
  }
}

std::vector<std::byte> some_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

TEST(RankLinkTest, MessagesOfAnySizeArriveWholeAndInOrder) {
  Links links;
  const std::vector<size_t> sizes = {0, 1, 11, 12, 13, 4096, 1 << 22, 0, 300'000};
  std::thread writer([&] {
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(links.rank.send(LinkKind::kResult, some_bytes(sizes[i], static_cast<unsigned>(i)),
                                Clock::now() + kPlenty),
                RankLink::Sent::kAll);
    }
  });
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::optional<LinkMessage> message = await(links.front);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->kind, LinkKind::kResult);
    EXPECT_EQ(message->body, some_bytes(sizes[i], static_cast<unsigned>(i)));
  }
  writer.join();
  EXPECT_FALSE(links.front.take());
  EXPECT_FALSE(links.front.closed());
}

TEST(RankLinkTest, EveryKindArrives) {
  for (const LinkKind kind :
       {LinkKind::kBegin, LinkKind::kFrame, LinkKind::kEnd, LinkKind::kState, LinkKind::kReady,
        LinkKind::kResult, LinkKind::kTimes, LinkKind::kMasks}) {
    Links links;
    ASSERT_EQ(links.rank.send(kind, some_bytes(5, 1), Clock::now() + kPlenty),
              RankLink::Sent::kAll);
    const std::optional<LinkMessage> message = await(links.front);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->kind, kind);
  }
}

TEST(RankLinkTest, ASenderNeverWaitsForEverAndIsWoken) {
  Links links;
  const std::vector<std::byte> large(1 << 22);
  EXPECT_EQ(links.front.send(LinkKind::kFrame, large, Clock::now() + milliseconds(20)),
            RankLink::Sent::kLate);
  Links others;
  const LinkPair wake = make_link_pair();
  ASSERT_EQ(::send(wake.front.get(), "x", 1, 0), 1);
  EXPECT_EQ(others.front.send(LinkKind::kFrame, large, Clock::now() + kPlenty, wake.rank.get()),
            RankLink::Sent::kWoken);
}

TEST(RankLinkTest, WhoHasLeftIsToldFromWhoIsSilent) {
  Links links;
  ASSERT_EQ(
      links.rank.send(LinkKind::kState, bytes_of(std::string("last")), Clock::now() + kPlenty),
      RankLink::Sent::kAll);
  links.rank = RankLink(UniqueFd(), "nobody");
  const std::optional<LinkMessage> last = await(links.front);
  ASSERT_TRUE(last) << "what was sent before counts";
  EXPECT_EQ(text_from(last->body), "last");
  EXPECT_FALSE(await(links.front));
  EXPECT_TRUE(links.front.closed());
  EXPECT_EQ(links.front.send(LinkKind::kFrame, {}, Clock::now() + kPlenty),
            RankLink::Sent::kClosed);
}

std::string header(const std::string& magic, uint32_t kind, uint32_t size) {
  std::string bytes = magic;
  for (const uint32_t word : {kind, size}) {
    for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(word >> (8 * i) & 0xffU);
  }
  return bytes;
}

TEST(RankLinkTest, GarbageIsRefusedBeforeMemoryIsTakenForIt) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("G"), header("TSRL", 0, 1),
        header("TSRL", 9, 1), header("TSRL", 6, 0xffffffffU), header("TSRL", 6, (1U << 22) + 1)}) {
    Links links;
    links.write_raw(bytes);
    try {
      (void)await(links.front);
      ADD_FAILURE() << "took " << bytes.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("rank 1 sent"), size_t{0}) << error.what();
    }
  }
}

TEST(RankLinkTest, RandomBytesAreNeverAMessage) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Links links;
    std::string bytes(1 + random() % 64, '\0');
    for (char& one : bytes) one = static_cast<char>(random());
    const auto word = [&](uint32_t below) { return static_cast<uint32_t>(random()) % below; };
    if (round % 2 == 0) bytes = header("TSRL", 1 + word(9), word(0xffffffffU)) + bytes;
    links.write_raw(bytes);
    links.rank = RankLink(UniqueFd(), "nobody");
    try {
      while (const std::optional<LinkMessage> message = await(links.front)) {
        EXPECT_LE(message->body.size(), bytes.size());
      }
    } catch (const Error&) {
    }
  }
}

TEST(RankMessagesTest, ATaskAndTimesAreReadAsTheyWereWritten) {
  RankTask task{.text = "a task", .shape = {.vocab = 5, .max_context = 6}, .times = true};
  task.shape.stages = 3;
  task.timeout = milliseconds(1234);
  const RankTask read = task_from(bytes_of(task));
  EXPECT_EQ(read.text, task.text);
  EXPECT_EQ(read.shape.vocab, 5);
  EXPECT_EQ(read.shape.max_context, 6);
  EXPECT_EQ(read.shape.stages, 3);
  EXPECT_TRUE(read.times);
  EXPECT_EQ(read.timeout, task.timeout);
  const FrameTimes times =
      times_from(bytes_of(FrameTimes{.number = 1, .begin_ns = 2, .end_ns = 3}));
  EXPECT_EQ(times.number, 1U);
  EXPECT_EQ(times.begin_ns, 2);
  EXPECT_EQ(times.end_ns, 3);
}

TEST(RankMessagesTest, OtherBytesAreRefused) {
  std::vector<std::byte> bytes = bytes_of(RankTask{.text = "a task", .shape = {}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW((void)task_from(std::span(bytes).first(size)), Error) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_THROW((void)task_from(bytes), Error);
  EXPECT_THROW((void)times_from(std::span(bytes).first(23)), Error);
  EXPECT_EQ(text_from(bytes_of(std::string("\x1b[2J"))), "\\u001b[2J");
}

}  // namespace
}  // namespace tessera::serve
