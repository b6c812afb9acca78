// Ranks as processes forked from a test, without exec, so that a test body is an ordinary function.
// Each rank says lines to the parent, with the time of a clock that all processes share. Fork only
// while the process has no other threads. Nothing outlives the object, nor the parent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tessera::testing {

using TestClock = std::chrono::steady_clock;

struct RankLine {
  TestClock::time_point at;
  std::string text;
};

// The child's end of the line to its parent.
class RankVoice {
 public:
  explicit RankVoice(int fd) : fd_(fd) {}
  void say(const std::string& text) const;

 private:
  int fd_;
};

struct RankEnd {
  bool hung = false;   // had to be killed
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  TestClock::time_point at;  // when its end was seen
  std::vector<RankLine> lines;

  // What follows "error: " in the line that a rank says when its body throws; empty: it did not.
  [[nodiscard]] std::string error() const;
  // When a line that begins so was said; throws Error when none was.
  [[nodiscard]] TestClock::time_point time_of(const std::string& begin) const;
};

class ForkedRanks {
 public:
  // A body that throws says "error: …" and exits with code 1; one that returns exits with 0.
  using Body = std::function<void(int rank, const RankVoice& voice)>;

  ForkedRanks(int size, const Body& body);
  ~ForkedRanks();
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  [[nodiscard]] pid_t pid(int rank) const { return child(rank).pid; }
  void signal(int rank, int number) const;
  void kill_all() const;

  // Waits until the rank has said a line that begins so. Throws Error when it does not in time, or
  // ends before.
  RankLine wait_for_line(int rank, const std::string& begin,
                         std::chrono::milliseconds patience = std::chrono::seconds(20));
  // Waits until the rank has ended, and reaps it.
  void wait_for_end(int rank, std::chrono::milliseconds patience = std::chrono::seconds(20));
  // How all ranks ended; kills those that have not after `patience`.
  std::vector<RankEnd> finish(std::chrono::milliseconds patience = std::chrono::seconds(20));

 private:
  struct Child {
    pid_t pid = 0;
    int fd = -1;
    bool reaped = false;
    std::string unread;  // bytes of a line that is not complete
    RankEnd end;
  };
  [[nodiscard]] const Child& child(int rank) const;
  Child& child(int rank);
  [[noreturn]] void be_child(int rank, int fd, const Body& body);
  // Reads what ranks say and notices their ends, for at most `patience`.
  void listen(std::chrono::milliseconds patience);
  static void read_lines(Child& child);
  static void reap(Child& child);

  pid_t parent_;
  std::vector<Child> children_;
};

}  // namespace tessera::testing
