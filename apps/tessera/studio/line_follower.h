// The lines of a run's metrics.jsonl as events, from a place on and as the file grows. Outlives
// truncation, another file in its place, and no file at all: what comes later is sent then. Says
// too when its events.jsonl has changed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "http/event_source.h"
#include "studio/line_place.h"
#include "studio/run_facts.h"
#include "studio/run_files.h"
#include "studio/run_table.h"

namespace tessera {

class LineFollower : public http::EventSource {
 public:
  static constexpr int64_t kPartBytes = int64_t{64} << 10;
  static constexpr int64_t kLongestLine = int64_t{1} << 20;  // longer ones are passed over

  // `facts` outlives it.
  LineFollower(RunEntry run, LinePlace from, RunFacts& facts);

  http::EventPart next() override;

 private:
  void look_at_state();
  void look_at_journal();
  void send_file(http::EventPart& part);
  void reset(std::string& text, std::string_view why);
  bool find_place(const RunFile& file, std::string& text);
  bool find_line(const RunFile& file);
  void send_lines(const RunFile& file, http::EventPart& part);
  void send_whole_lines(std::string_view bytes, std::string& text);
  void pass_over_line(const RunFile& file, http::EventPart& part);

  const RunEntry run_;
  RunFacts& facts_;
  LinePlace place_;
  bool checked_ = false;  // the place is the end of a line of this file
  int64_t searched_ = 0;  // bytes in which a place or the end of a long line was looked for
  int64_t lines_found_ = 0;
  int64_t last_line_end_ = 0;
  std::optional<FileState> followed_;  // the file of the place
  std::optional<FileState> seen_;      // when there was nothing more
  std::optional<FileState> journal_;
  bool greeted_ = false;
  std::chrono::steady_clock::time_point state_seen_;
  std::string state_;
  std::string news_;  // of the state: told when all lines are
};

}  // namespace tessera
