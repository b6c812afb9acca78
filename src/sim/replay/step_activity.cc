#include "sim/replay/step_activity.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera {
namespace {

bool is_kernel(const Instruction& instruction) {
  return instruction.stream == StreamKind::kCompute;
}

SegmentKind kind_of(const Instruction& instruction) {
  if (instruction.micro_batch < 0) return SegmentKind::kUpdate;
  switch (instruction.tag.pass) {
    case Pass::kForward:
      return SegmentKind::kForward;
    case Pass::kInputGrad:
      return SegmentKind::kInputGrad;
    case Pass::kWeightGrad:
      return SegmentKind::kWeightGrad;
    case Pass::kRecompute:
    case Pass::kReduce:
      return SegmentKind::kBackward;
    case Pass::kUpdate:
      return SegmentKind::kUpdate;
  }
  return SegmentKind::kUpdate;
}

bool is_backward(SegmentKind kind) {
  return kind == SegmentKind::kBackward || kind == SegmentKind::kInputGrad ||
         kind == SegmentKind::kWeightGrad;
}

class ActivityOfRank {
 public:
  ActivityOfRank(const RankTimeline& rank, double makespan)
      : instructions_(rank.program->instructions), times_(rank.times), makespan_(makespan) {
    for (size_t i = 0; i < instructions_.size(); ++i) {
      const Instruction& instruction = instructions_[i];
      if (instruction.signal >= 0) signaller_[instruction.signal] = i;
      if (is_kernel(instruction) || times_[i].active < 0) continue;
      transfers_[static_cast<size_t>(instruction.stream)].push_back(i);
    }
  }

  RankActivity run() {
    double free_at = 0;
    for (size_t i = 0; i < instructions_.size(); ++i) {
      if (!is_kernel(instructions_[i]) || times_[i].end < 0) continue;
      if (times_[i].begin > free_at) add_waits(free_at, times_[i].begin, awaited_stream(i));
      add_kernel(i);
      free_at = times_[i].end;
    }
    if (makespan_ > free_at) add_waits(free_at, makespan_, last_stream());
    for (const auto& list : transfers_) {
      for (const size_t i : list) {
        activity_.communication_s[axis_of(instructions_[i])] += end_of(i) - times_[i].active;
      }
    }
    return std::move(activity_);
  }

 private:
  // One that a lost rank keeps from ending ends with the simulation.
  [[nodiscard]] double end_of(size_t i) const {
    return times_[i].end < 0 ? makespan_ : times_[i].end;
  }

  void add_kernel(size_t i) {
    const Instruction& instruction = instructions_[i];
    const double took = times_[i].end - times_[i].active;
    activity_.compute_s += took;
    const SegmentKind kind = kind_of(instruction);
    if (instruction.tag.pass == Pass::kRecompute) activity_.recompute_s += took;
    if (kind == SegmentKind::kUpdate) activity_.update_s += took;
    std::vector<Segment>& segments = activity_.segments;
    if (!segments.empty() && segments.back().micro_batch == instruction.micro_batch) {
      Segment& last = segments.back();
      const bool same = last.kind == kind;
      if (same || (is_backward(last.kind) && is_backward(kind))) {
        if (!same) last.kind = SegmentKind::kBackward;
        last.end = times_[i].end;
        last.last = i;
        return;
      }
    }
    segments.push_back({kind, instruction.micro_batch, times_[i].active, times_[i].end, i, i});
  }

  // The stream of whatever came last of what kernel `i` waited for.
  [[nodiscard]] StreamKind awaited_stream(size_t i) const {
    StreamKind stream = StreamKind::kComm;
    double latest = -1;
    for (const int event : instructions_[i].waits) {
      const size_t by = signaller_.at(event);
      if (times_[by].end <= latest) continue;
      latest = times_[by].end;
      stream = instructions_[by].stream;
    }
    return stream;
  }

  // The stream whose last transfer ends last.
  [[nodiscard]] StreamKind last_stream() const {
    const auto ends = [&](StreamKind stream) {
      const auto& list = transfers_[static_cast<size_t>(stream)];
      return list.empty() ? -1.0 : end_of(list.back());
    };
    StreamKind last = StreamKind::kComm;
    for (const StreamKind stream : kCommunicationStreams) {
      if (ends(stream) > ends(last)) last = stream;
    }
    return last;
  }

  void add_waits(double begin, double end, StreamKind stream) {
    const std::vector<size_t>& list = transfers_[static_cast<size_t>(stream)];
    size_t& next = next_[static_cast<size_t>(stream)];
    while (next < list.size() && end_of(list[next]) <= begin) ++next;
    double at = begin;
    for (size_t k = next; k < list.size() && times_[list[k]].active < end; ++k) {
      const double from = std::max(at, times_[list[k]].active);
      const double to = std::min(end, end_of(list[k]));
      if (to <= from) continue;
      add_wait(at, from, "");
      add_wait(from, to, axis_of(instructions_[list[k]]));
      at = to;
    }
    add_wait(at, end, "");
  }

  void add_wait(double begin, double end, const std::string& group) {
    if (end <= begin) return;
    (group.empty() ? activity_.idle_s : activity_.exposed_s[group]) += end - begin;
    std::vector<Wait>& waits = activity_.waits;
    if (!waits.empty() && waits.back().end == begin && waits.back().group == group) {
      waits.back().end = end;
    } else {
      waits.push_back({begin, end, group});
    }
  }

  const std::vector<Instruction>& instructions_;
  const std::vector<InstructionTime>& times_;
  double makespan_;
  std::map<int, size_t> signaller_;                         // by event
  std::array<std::vector<size_t>, kNumStreams> transfers_;  // in order, by stream
  std::array<size_t, kNumStreams> next_ = {};
  RankActivity activity_;
};

}  // namespace

char letter_of(SegmentKind kind) { return "FBIWU"[static_cast<size_t>(kind)]; }

std::string_view name_of(SegmentKind kind) {
  constexpr std::array<std::string_view, kNumSegmentKinds> kNames = {
      "forward", "backward", "input gradient", "weight gradient", "update"};
  return kNames[static_cast<size_t>(kind)];
}

std::string axis_of(const Instruction& instruction) { return name_of(group_of(instruction)); }

namespace {

// By less than this part of the step two times look the same.
constexpr double kVisible = 5e-4;

bool look_alike(const std::map<std::string, double>& a, const std::map<std::string, double>& b,
                double least) {
  const auto at = [](const std::map<std::string, double>& times, const std::string& name) {
    const auto found = times.find(name);
    return found == times.end() ? 0.0 : found->second;
  };
  const auto within = [&](const auto& names) {
    return std::all_of(names.begin(), names.end(), [&](const auto& entry) {
      return std::abs(at(a, entry.first) - at(b, entry.first)) <= least;
    });
  };
  return within(a) && within(b);
}

bool look_alike(const RankActivity& a, const RankActivity& b, double makespan) {
  const double least = kVisible * makespan;
  const auto same = [least](double x, double y) { return std::abs(x - y) <= least; };
  return same(a.compute_s, b.compute_s) && same(a.idle_s, b.idle_s) &&
         look_alike(a.exposed_s, b.exposed_s, least) &&
         std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                    [&](const Segment& x, const Segment& y) {
                      return x.kind == y.kind && x.micro_batch == y.micro_batch &&
                             same(x.begin, y.begin) && same(x.end, y.end);
                    });
}

}  // namespace

std::vector<ShownRow> rows_to_show(const StepTimeline& timeline,
                                   const std::vector<RankActivity>& activities) {
  std::vector<ShownRow> rows;
  // Who waits for a lost rank may have done the same as that one until then.
  const auto has_lost = [&](const std::vector<int>& ranks) {
    return timeline.lost.has_value() &&
           std::find(ranks.begin(), ranks.end(), timeline.lost->rank) != ranks.end();
  };
  for (size_t c = 0; c < activities.size(); ++c) {
    const std::vector<int>& ranks = timeline.ranks[c].ranks;
    const auto like = std::find_if(rows.begin(), rows.end(), [&](const ShownRow& row) {
      return !has_lost(ranks) && !has_lost(row.ranks) &&
             look_alike(activities[row.of_class], activities[c], timeline.makespan);
    });
    if (like == rows.end()) {
      rows.push_back({c, ranks});
      continue;
    }
    like->ranks.insert(like->ranks.end(), ranks.begin(), ranks.end());
    std::sort(like->ranks.begin(), like->ranks.end());
  }
  return rows;
}

std::vector<RankActivity> activity_of(const StepTimeline& timeline) {
  std::vector<RankActivity> activities;
  for (const RankTimeline& rank : timeline.ranks) {
    activities.push_back(ActivityOfRank(rank, timeline.makespan).run());
  }
  return activities;
}

std::vector<Segment> busy_pieces(const RankActivity& activity) {
  std::vector<Segment> pieces;
  const auto add = [&](const Segment& segment, double begin, double end) {
    if (end <= begin) return;
    pieces.push_back(segment);
    pieces.back().begin = begin;
    pieces.back().end = end;
  };
  auto wait = activity.waits.begin();
  for (const Segment& segment : activity.segments) {
    double at = segment.begin;
    while (wait != activity.waits.end() && wait->end <= segment.begin) ++wait;
    for (auto inside = wait; inside != activity.waits.end() && inside->begin < segment.end;
         ++inside) {
      add(segment, at, inside->begin);
      at = inside->end;
    }
    add(segment, at, segment.end);
  }
  return pieces;
}

}  // namespace tessera
