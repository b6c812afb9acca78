// Lines, their prefixes, and outputs that somebody reads slowly or not at all.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/testing/test_folder.h"
#include "launch/agent/output/line_prefixer.h"
#include "launch/agent/output/output_forwarder.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMax = LinePrefixer::kMaxLineBytes;

std::string prefixed(const std::string& text, size_t piece) {
  LinePrefixer lines("> ");
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) lines.feed(text.substr(at, piece), out);
  lines.finish(out);
  return out;
}

TEST(LinePrefixerTest, PutsThePrefixBeforeEveryLine) {
  for (const size_t piece : {1U, 2U, 3U, 100U}) {
    EXPECT_EQ(prefixed("a\nbc\n\nd\n", piece), "> a\n> bc\n> \n> d\n");
    EXPECT_EQ(prefixed("a\nb", piece), "> a\n> b\n");
    EXPECT_EQ(prefixed("", piece), "");
  }
}

TEST(LinePrefixerTest, KeepsALineTogetherUntilItEnds) {
  LinePrefixer lines("> ");
  std::string out;
  lines.feed("half ", out);
  EXPECT_EQ(out, "");
  lines.feed("whole\nnext", out);
  EXPECT_EQ(out, "> half whole\n");
}

TEST(LinePrefixerTest, CutsLongLines) {
  const std::string full(kMax, 'x');
  for (const size_t piece : {size_t{1000}, kMax, 3 * kMax}) {
    EXPECT_EQ(prefixed(full + "\n", piece), "> " + full + "\n");
    EXPECT_EQ(prefixed(full, piece), "> " + full + "\n");
    EXPECT_EQ(prefixed(full + "y\n", piece), "> " + full + "\n> y\n");
    EXPECT_EQ(prefixed(full + full + "y", piece), "> " + full + "\n> " + full + "\n> y\n");
  }
}

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

void put(const UniqueFd& fd, const std::string& text) {
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::string take(const UniqueFd& fd, size_t limit = 1 << 20) {
  std::string text(limit, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

const auto kNever = [] { return false; };

TEST(OutputForwarderTest, TakesWhatIsLeftOfAPipeThatStaysOpen) {
  const Pipe out;
  const Pipe err;
  OutputForwarder forwarder(out.write_end.get(), err.write_end.get());
  const UniqueFd one = forwarder.open_pipe("[1] ", OutputForwarder::Target::kOut);
  const UniqueFd two = forwarder.open_pipe("[2] ", OutputForwarder::Target::kErr);
  put(one, "a\nb");
  put(two, "c\n");
  forwarder.finish(milliseconds(5'000), kNever);  // both ends are still open
  EXPECT_EQ(take(out.read_end), "[1] a\n[1] b\n");
  EXPECT_EQ(take(err.read_end), "[2] c\n");
}

// The queue is bounded, so what is not read stays in the writer's pipe.
TEST(OutputForwarderTest, HoldsTheWriterBackWhenNobodyReads) {
  const Pipe out;
  OutputForwarder forwarder(out.write_end.get(), out.write_end.get());
  const UniqueFd source = forwarder.open_pipe("> ", OutputForwarder::Target::kOut);
  ASSERT_EQ(::fcntl(source.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string line = std::string(999, 'x') + "\n";
  size_t accepted = 0;
  for (int idle = 0; idle < 3;) {
    const ssize_t put_bytes = ::write(source.get(), line.data(), line.size());
    if (put_bytes > 0) accepted += static_cast<size_t>(put_bytes);
    PollSet set;
    forwarder.add_to(set);
    set.wait(milliseconds(10));
    forwarder.forward(set);
    idle = put_bytes > 0 ? 0 : idle + 1;
    ASSERT_LT(accepted, 4U << 20) << "the forwarder buffers without end";
  }
  EXPECT_GT(accepted, 100'000U);
  bool asked = false;
  forwarder.finish(milliseconds(60'000), [&] { return std::exchange(asked, true); });
}

TEST(OutputForwarderTest, DropsWhatNobodyCanRead) {
  Pipe out;
  Pipe err;
  OutputForwarder forwarder(out.write_end.get(), err.write_end.get());
  const UniqueFd source = forwarder.open_pipe("> ", OutputForwarder::Target::kOut);
  out.read_end.reset();
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);  // as the agent does
  put(source, "a\nb\n");
  forwarder.finish(milliseconds(60'000), kNever);
  forwarder.say("last words", milliseconds(60'000));
  const timespec now{};
  while (sigtimedwait(&pipe_signal, nullptr, &now) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(take(err.read_end), "last words\n");
}

TEST(OutputForwarderTest, WritesToFiles) {
  const testing::TestFolder folder;
  const UniqueFd file(::open(folder.path("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  OutputForwarder forwarder(file.get(), file.get());
  const UniqueFd source = forwarder.open_pipe("> ", OutputForwarder::Target::kOut);
  std::string expected;
  for (int i = 0; i < 1000; ++i) expected += "> " + std::to_string(i) + "\n";
  for (int i = 0; i < 1000; ++i) put(source, std::to_string(i) + "\n");
  forwarder.finish(milliseconds(5'000), kNever);
  EXPECT_EQ(testing::read_file(folder.path("out")), expected);
}

}  // namespace
}  // namespace tessera
