// Copies what children write into pipes to the output of this process, line by line, with a prefix
// per child. Lines never mix. When the reader of the output is slow, the children's pipes fill up
// and they wait, as they would without the forwarder.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launch/agent/output/line_prefixer.h"
#include "launch/agent/output/output_sink.h"
#include "launch/poll_set.h"
#include "launch/unique_fd.h"

namespace tessera {

class OutputForwarder {
 public:
  enum class Target { kOut, kErr };

  OutputForwarder(int out_fd, int err_fd) : out_(out_fd), err_(err_fd) {}
  OutputForwarder(const OutputForwarder&) = delete;
  OutputForwarder& operator=(const OutputForwarder&) = delete;

  // Makes a pipe whose content goes to `target`, and to the file `copy` as it is unless that is -1;
  // returns the end to write to. The file must stay open as long as the forwarder.
  UniqueFd open_pipe(const std::string& prefix, Target target, int copy = -1);

  void add_to(PollSet& set);
  void forward(const PollSet& set);

  // After the children have ended: what is still in the pipes, and last lines without a newline.
  // When nobody reads the output, gives up after `time` or as soon as `stop` says so.
  void finish(std::chrono::milliseconds time, const std::function<bool()>& stop);
  // After finish: a line to err_fd, in no longer than `time`.
  void say(const std::string& text, std::chrono::milliseconds time);

 private:
  using Clock = std::chrono::steady_clock;

  struct Source {
    UniqueFd fd;
    LinePrefixer lines;
    OutputSink* sink;
    int copy = -1;
    size_t slot = PollSet::kNone;
  };
  static bool read_once(Source& source);  // whether anything came
  bool read_all();                        // false: stopped because a queue is full
  void write_all(Clock::time_point deadline, const std::function<bool()>& stop);

  OutputSink out_;
  OutputSink err_;
  std::vector<Source> sources_;
};

}  // namespace tessera
