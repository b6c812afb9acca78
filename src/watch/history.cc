#include "watch/history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tessera {

void History::Stat::add(const Stat& next) {
  if (next.count == 0) return;
  if (count == 0) {
    *this = next;
    return;
  }
  sum += next.sum;
  low = std::min(low, next.low);
  high = std::max(high, next.high);
  count += next.count;
}

void History::Block::add(const Block& next) {
  if (lines == 0) {
    *this = next;
    return;
  }
  end = next.end;
  last_step = next.last_step;
  lines += next.lines;
  if (stats.size() < next.stats.size()) stats.resize(next.stats.size());
  for (size_t i = 0; i < next.stats.size(); ++i) stats[i].add(next.stats[i]);
}

int History::key_of(const std::string& name) {
  const auto found = index_of_key_.find(name);
  if (found != index_of_key_.end()) return found->second;
  if (keys_.size() >= kMostKeys) return -1;
  const int index = static_cast<int>(keys_.size());
  keys_.push_back(name);
  index_of_key_[name] = index;
  return index;
}

// A line alone; keys that are not known are left out.
History::Block History::block_of(const MetricsLine& line) const {
  Block block{.first_step = line.step, .last_step = line.step, .lines = 1};
  block.stats.resize(keys_.size());
  for (const auto& [key, value] : line.values) {
    const auto found = index_of_key_.find(key);
    if (found == index_of_key_.end() || !std::isfinite(value)) continue;
    block.stats[static_cast<size_t>(found->second)] = {value, value, value, 1};
  }
  return block;
}

void History::add(const MetricsLine& line, std::string_view text, int64_t begin, int64_t end,
                  const ReadLines& read) {
  if (!line.event.empty()) {
    events_.emplace_back(text);
    if (events_.size() > kMostEvents) events_.pop_front();
    return;
  }
  if (!blocks_.empty() && line.step <= blocks_.back().last_step) rewind(line.step, read);
  for (const auto& [key, value] : line.values) {
    if (key == "step" || key_of(key) < 0 || std::isfinite(value)) continue;
    if (not_finite_.size() < kMostNotFinite) not_finite_.push_back({line.step, key, value});
  }
  Block one = block_of(line);
  one.begin = begin;
  one.end = end;
  last_line_ = text;
  if (blocks_.empty() || blocks_.back().sealed || blocks_.back().lines >= kLinesPerBlock) {
    blocks_.push_back(std::move(one));
  } else {
    blocks_.back().add(one);
  }
}

void History::read_within(const Block& block, int64_t from, int64_t to, const ReadLines& read,
                          Blocks& lines) const {
  // A block that was cut off by a resumed run has lines behind its last step in its bytes.
  const int64_t last = std::min(to, block.last_step);
  read(block.begin, block.end, [&](const MetricsLine& line) {
    if (!line.event.empty() || line.step < from || line.step > last) return;
    lines.push_back(block_of(line));
  });
}

void History::rewind(int64_t step, const ReadLines& read) {
  while (!blocks_.empty() && blocks_.back().first_step >= step) blocks_.pop_back();
  std::erase_if(not_finite_, [&](const NotFinite& value) { return value.step >= step; });
  if (blocks_.empty()) return;
  Block& last = blocks_.back();
  last.sealed = true;
  if (last.last_step < step) return;
  Blocks lines;
  read_within(last, last.first_step, step - 1, read, lines);
  Block left;
  for (const Block& line : lines) left.add(line);
  left.begin = last.begin;
  left.end = last.end;
  left.sealed = true;
  if (left.lines == 0) {
    blocks_.pop_back();
  } else {
    last = std::move(left);
  }
}

Series History::series_of(const Blocks& parts, int64_t points) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto count = static_cast<int64_t>(parts.size());
  const int64_t together = std::max<int64_t>(1, (count + points - 1) / points);
  Series series;
  for (const std::string& key : keys_) series.keys[key];
  for (int64_t first = 0; first < count; first += together) {
    Block point;
    for (int64_t i = first; i < std::min(count, first + together); ++i) {
      point.add(parts[static_cast<size_t>(i)]);
    }
    series.step.push_back(point.last_step);
    series.lines_per_point = std::max(series.lines_per_point, point.lines);
    for (auto& [key, values] : series.keys) {
      const auto index = static_cast<size_t>(index_of_key_.at(key));
      const Stat stat = index < point.stats.size() ? point.stats[index] : Stat{};
      const bool any = stat.count > 0;
      values.mean.push_back(any ? stat.sum / static_cast<double>(stat.count) : kNone);
      values.low.push_back(any ? stat.low : kNone);
      values.high.push_back(any ? stat.high : kNone);
    }
  }
  return series;
}

Series History::series(int64_t from, int64_t to, int64_t points, const ReadLines& read) const {
  TESSERA_CHECK(points >= 2, "a series of {} points", points);
  const auto overlaps = [&](const Block& block) {
    return block.last_step >= from && block.first_step <= to;
  };
  const int64_t touched = std::count_if(blocks_.begin(), blocks_.end(), overlaps);
  const bool by_block = touched >= std::max<int64_t>(2, points / 4);
  Blocks parts;
  for (const Block& block : blocks_) {
    if (!overlaps(block)) continue;
    const bool whole = block.first_step >= from && block.last_step <= to;
    if (by_block && whole) {
      parts.push_back(block);
      continue;
    }
    Blocks lines;
    read_within(block, from, to, read, lines);
    if (by_block && !lines.empty()) {
      Block part;
      for (const Block& line : lines) part.add(line);
      lines = {part};
    }
    parts.insert(parts.end(), lines.begin(), lines.end());
  }
  return series_of(parts, points);
}

}  // namespace tessera
