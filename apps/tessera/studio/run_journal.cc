#include "studio/run_journal.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/text/json.h"
#include "studio/run_files.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

constexpr int kJournalSchema = 1;
constexpr int64_t kMostBytes = int64_t{4} << 20;
constexpr size_t kLongestLine = size_t{64} << 10;

// Null: it is no event.
ordered_json event_of(std::string_view line) {
  if (line.size() > kLongestLine) return nullptr;
  try {
    ordered_json json = parse_ordered_json(line, kJournalFile);
    const bool is_event =
        json.is_object() && json.contains("event") && json.at("event").is_string();
    return is_event ? json : ordered_json();
  } catch (const ConfigError&) {
    return nullptr;
  }
}

}  // namespace

ordered_json journal_of(const std::string& folder) {
  std::deque<ordered_json> events;
  int64_t bad_lines = 0;
  bool complete = true;
  const RunFile file(folder, kJournalFile);
  if (file.valid()) {
    const int64_t from = std::max<int64_t>(0, file.state().size - kMostBytes);
    const std::string bytes = file.read(from, kMostBytes);
    std::string_view rest = bytes;
    if (from > 0) {  // its first line may have begun before
      complete = false;
      rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    }
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      if (line.empty() || line == "\r") continue;
      ordered_json event = event_of(line);
      if (event.is_null()) {
        ++bad_lines;
        continue;
      }
      events.push_back(std::move(event));
      if (events.size() <= kMostJournalEvents) continue;
      events.pop_front();
      complete = false;
    }
  }
  return {{"schema_version", kJournalSchema},
          {"kind", "journal"},
          {"complete", complete},
          {"bad_lines", bad_lines},
          {"events", std::move(events)}};
}

}  // namespace tessera
