#include "studio/line_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "studio/run_journal.h"

namespace tessera {
namespace {

using http::format_event;
using std::chrono::steady_clock;

constexpr int64_t kSearchBytes = int64_t{8} << 20;  // in one call
constexpr std::chrono::milliseconds kStateInterval{2000};
constexpr std::string_view kGreeting = "retry: 1000\n\n";

std::string_view without_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

LineFollower::LineFollower(RunEntry run, LinePlace from, RunFacts& facts)
    : run_(std::move(run)), facts_(facts), place_(std::move(from)) {}

http::EventPart LineFollower::next() {
  http::EventPart part;
  if (!std::exchange(greeted_, true)) part.text = kGreeting;
  look_at_state();  // before the lines: whoever hears that a run has finished has heard its last
                    // line
  look_at_journal();
  send_file(part);
  if (!part.more) part.text += std::exchange(news_, "");
  return part;
}

void LineFollower::send_file(http::EventPart& part) {
  const RunFile file(run_.path, "metrics.jsonl");
  if (!file.valid() || file.state() == seen_) return;
  const std::optional<std::string> key = file_key(file.read(0, kKeyBytes));
  // A run that goes on from a checkpoint drops its later lines: a new file, with the same start,
  // that may have grown beyond the place already.
  const bool another = (key.has_value() && !place_.key.empty() && *key != place_.key) ||
                       (followed_.has_value() && !followed_->is_same_file(file.state()));
  if (another || file.state().size < place_.offset) {
    reset(part.text, another ? "another file of metrics is in its place" : "it was truncated");
  }
  if (!key.has_value()) {  // its first line is being written
    seen_ = file.state();
    return;
  }
  place_.key = *key;
  followed_ = file.state();
  if (!find_place(file, part.text)) {
    part.more = true;
    return;
  }
  send_lines(file, part);
}

void LineFollower::look_at_state() {
  const auto now = steady_clock::now();
  if (!news_.empty() || (!state_.empty() && now - state_seen_ < kStateInterval)) return;
  state_seen_ = now;
  const nlohmann::ordered_json facts = facts_.of(run_);
  // The reason may count seconds: that alone is no news.
  if (facts.at("state") == state_) return;
  state_ = facts.at("state");
  const nlohmann::ordered_json told = {{"state", facts.at("state")},
                                       {"reason", facts.at("reason")},
                                       {"last_step", facts.at("last_step")},
                                       {"steps", facts.at("steps")},
                                       {"age_s", facts.at("age_s")}};
  news_ += format_event("", "state",
                        told.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void LineFollower::look_at_journal() {
  const RunFile file(run_.path, kJournalFile);
  if (!file.valid() || file.state() == journal_) return;
  journal_ = file.state();
  news_ += format_event("", "journal", fmt::format(R"({{"bytes":{}}})", file.state().size));
}

void LineFollower::reset(std::string& text, std::string_view why) {
  place_ = {};
  checked_ = false;
  searched_ = lines_found_ = last_line_end_ = 0;
  seen_.reset();
  followed_.reset();
  const nlohmann::ordered_json told = {{"why", why}};
  // The empty id makes a reader that comes back begin anew.
  text += "id\n" + format_event("", "reset", told.dump());
}

// False: the place is still being looked for.
bool LineFollower::find_place(const RunFile& file, std::string& text) {
  if (checked_) return true;
  if (place_.offset < 0 && !find_line(file)) return false;
  checked_ = true;
  if (place_.offset == 0) return true;
  if (file.read(place_.offset - 1, 1) != "\n") {
    const std::string key = place_.key;
    reset(text, "it has no line that ends there");
    place_.key = key;
    checked_ = true;
  }
  return true;
}

// Counts lines from the start of the file. Where it has fewer than are asked for, its end is taken,
// under the number that it has.
bool LineFollower::find_line(const RunFile& file) {
  const std::string bytes = file.read(searched_, kSearchBytes);
  size_t at = 0;
  int64_t line_end = -1;
  while (lines_found_ < place_.line) {
    const size_t end = bytes.find('\n', at);
    if (end == std::string::npos) break;
    ++lines_found_;
    at = end + 1;
    line_end = searched_ + static_cast<int64_t>(at);
  }
  if (line_end >= 0) last_line_end_ = line_end;
  const bool at_end = static_cast<int64_t>(bytes.size()) < kSearchBytes;
  if (lines_found_ < place_.line && !at_end) {
    searched_ += kSearchBytes;
    return false;
  }
  place_.line = lines_found_;
  place_.offset = last_line_end_;
  searched_ = lines_found_ = 0;
  return true;
}

void LineFollower::send_lines(const RunFile& file, http::EventPart& part) {
  if (searched_ > 0) return pass_over_line(file, part);
  std::string bytes = file.read(place_.offset, kPartBytes);
  size_t end = bytes.rfind('\n');
  if (end == std::string::npos && static_cast<int64_t>(bytes.size()) == kPartBytes) {
    bytes = file.read(place_.offset, kLongestLine + 1);
    end = bytes.find('\n');
    if (end == std::string::npos && static_cast<int64_t>(bytes.size()) > kLongestLine) {
      searched_ = kLongestLine;
      return pass_over_line(file, part);
    }
  }
  if (end == std::string::npos) {  // a line that is not whole is held back
    seen_ = file.state();
    return;
  }
  send_whole_lines(std::string_view(bytes).substr(0, end + 1), part.text);
  part.more = true;
}

void LineFollower::send_whole_lines(std::string_view bytes, std::string& text) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view line = without_return(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
    ++place_.line;
    place_.offset += static_cast<int64_t>(end) + 1;
    if (!line.empty()) text += format_event(place_.text(), "", line);
  }
}

void LineFollower::pass_over_line(const RunFile& file, http::EventPart& part) {
  const std::string bytes = file.read(place_.offset + searched_, kSearchBytes);
  const size_t end = bytes.find('\n');
  if (end == std::string::npos) {
    searched_ += static_cast<int64_t>(bytes.size());
    if (bytes.empty()) {
      seen_ = file.state();
    } else {
      part.more = true;
    }
    return;
  }
  ++place_.line;
  place_.offset += searched_ + static_cast<int64_t>(end) + 1;
  searched_ = 0;
  const nlohmann::ordered_json told = {{"line", place_.line}, {"why", "it is longer than 1 MiB"}};
  part.text += format_event(place_.text(), "skipped", told.dump());
  part.more = true;
}

}  // namespace tessera
