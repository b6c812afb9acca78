#include "studio/run_history.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "http/message.h"
#include "studio/line_follower.h"
#include "studio/line_place.h"
#include "watch/run_metrics.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr int kSeriesSchema = 1;
constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr std::chrono::milliseconds kBudget{1000}, kPatience{5000};
constexpr size_t kMostKept = 64;

// Lines that are no metrics are passed over: they were counted when they were read first.
History::ReadLines reader_of(const RunFile& file) {
  return [&file](int64_t begin, int64_t end, const History::TakeLine& take) {
    const std::string bytes = file.read(begin, end - begin);
    for (size_t at = 0; at < bytes.size();) {
      const size_t newline = std::min(bytes.find('\n', at), bytes.size());
      try {
        take(parse_metrics_line(std::string_view(bytes).substr(at, newline - at)));
      } catch (const ConfigError&) {
      }
      at = newline + 1;
    }
  };
}

std::string text_of(double value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

ordered_json parsed_or_null(const std::string& text) {
  return ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

ordered_json numbers(const SeriesOfKey& series, bool exact) {
  ordered_json json = {{"mean", series.mean}};
  if (exact) return json;
  json["low"] = series.low;
  json["high"] = series.high;
  return json;
}

}  // namespace

void RunHistory::take_line(std::string_view line, int64_t begin, const History::ReadLines& read) {
  const int64_t end = begin + static_cast<int64_t>(line.size()) + 1;
  if (line.empty()) return;
  try {
    require_config(static_cast<int64_t>(line.size()) <= LineFollower::kLongestLine, "too long");
    history_.add(parse_metrics_line(line), line, begin, end, read);
  } catch (const ConfigError&) {
    ++bad_lines_;
  }
}

// False: there was nothing more.
bool RunHistory::read_on(const RunFile& file) {
  const std::string bytes = file.read(offset_ + scanned_, kChunkBytes);
  if (bytes.find('\n') == std::string::npos) {
    if (static_cast<int64_t>(bytes.size()) < kChunkBytes) return false;
    scanned_ += kChunkBytes;
    return true;
  }
  const History::ReadLines read = reader_of(file);
  std::string_view rest = bytes;
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    if (scanned_ > 0) {
      ++bad_lines_;
    } else {
      take_line(rest.substr(0, end), offset_, read);
    }
    ++lines_;
    offset_ += std::exchange(scanned_, 0) + static_cast<int64_t>(end) + 1;
    rest.remove_prefix(end + 1);
  }
  return true;
}

bool RunHistory::update(std::chrono::milliseconds budget) {
  const RunFile file(folder_, "metrics.jsonl");
  const auto key = file.valid() ? file_key(file.read(0, kKeyBytes)) : std::nullopt;
  const bool another = !key_.empty() && (key != key_ || !file_.is_same_file(file.state()));
  if (!file.valid() || another || file.state().size < offset_) *this = RunHistory(folder_);
  if (!key.has_value()) return true;
  key_ = *key;
  file_ = file.state();
  const auto deadline = steady_clock::now() + budget;
  while (read_on(file)) {
    if (steady_clock::now() >= deadline) return false;
  }
  return true;
}

ordered_json RunHistory::series(const SeriesQuery& query) const {
  const RunFile file(folder_, "metrics.jsonl");
  const int64_t from = std::max(query.from, history_.first_step());
  const int64_t to = std::min(query.to, history_.last_step());
  Series series;
  if (file.valid()) series = history_.series(from, to, query.points, reader_of(file));
  const bool exact = series.lines_per_point == 1;
  std::vector<std::string> keys = history_.keys();
  put_usual_first(keys);
  ordered_json json = {{"lines", lines_},
                       {"next", LinePlace{lines_, offset_, key_}.text()},
                       {"first_step", history_.first_step()},
                       {"last_step", history_.last_step()},
                       {"from", from},
                       {"to", to},
                       {"per_point", series.lines_per_point},
                       {"keys", keys},
                       {"step", series.step},
                       {"series", ordered_json::object()},
                       {"not_finite", ordered_json::array()},
                       {"events", ordered_json::array()}};
  for (const std::string& key : keys) {
    const bool wanted = query.keys.empty() ||
                        std::find(query.keys.begin(), query.keys.end(), key) != query.keys.end();
    if (wanted && series.keys.contains(key)) json["series"][key] = numbers(series.keys[key], exact);
  }
  for (const NotFinite& value : history_.not_finite()) {
    json["not_finite"].push_back(
        {{"step", value.step}, {"key", value.key}, {"value", text_of(value.value)}});
  }
  for (const std::string& event : history_.events())
    json["events"].push_back(parsed_or_null(event));
  json["last"] =
      history_.last_line().empty() ? ordered_json() : parsed_or_null(history_.last_line());
  json["bad_lines"] = bad_lines_;
  return json;
}

std::shared_ptr<RunHistories::Kept> RunHistories::find(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const auto& kept) { return kept->path == path; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
  } else {
    kept_.push_front(std::make_shared<Kept>(path));
    if (kept_.size() > kMostKept) kept_.pop_back();
  }
  return kept_.front();
}

ordered_json RunHistories::series(const RunEntry& run, const SeriesQuery& query) {
  const std::shared_ptr<Kept> kept = find(run.path);
  const std::unique_lock lock(kept->mutex, kPatience);
  if (!lock.owns_lock()) {
    throw http::Refusal(503, "unavailable", "others ask for the same run: try again in a second");
  }
  const bool complete = kept->history.update(kBudget);
  ordered_json json = {{"schema_version", kSeriesSchema},
                       {"kind", "series"},
                       {"id", run.id},
                       {"complete", complete}};
  json.update(kept->history.series(query));
  return json;
}

}  // namespace tessera
