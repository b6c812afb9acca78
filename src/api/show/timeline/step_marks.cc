#include "api/show/timeline/step_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "draw/memory_curve.h"

namespace tessera {
namespace {

MarkKind kind_of(const Instruction& instruction) {
  if (instruction.micro_batch < 0) return MarkKind::kUpdate;
  switch (instruction.tag.pass) {
    case Pass::kForward:
      return MarkKind::kForward;
    case Pass::kInputGrad:
      return MarkKind::kInputGrad;
    case Pass::kWeightGrad:
      return MarkKind::kWeightGrad;
    case Pass::kRecompute:
      return MarkKind::kRecompute;
    case Pass::kReduce:
      return MarkKind::kBackward;
    case Pass::kUpdate:
      return MarkKind::kUpdate;
  }
  return MarkKind::kUpdate;
}

MarkKind kind_of(SegmentKind kind) {
  constexpr std::array<MarkKind, kNumSegmentKinds> kKinds = {
      MarkKind::kForward, MarkKind::kBackward, MarkKind::kInputGrad, MarkKind::kWeightGrad,
      MarkKind::kUpdate};
  return kKinds[static_cast<size_t>(kind)];
}

void add_waits(const RankActivity& activity, Labels& labels, MarkRow& row) {
  for (const Wait& wait : activity.waits) {
    if (wait.group.empty()) continue;
    row.marks.push_back(
        {wait.begin, wait.end, MarkKind::kExposed, labels.of("waits for " + wait.group)});
  }
  std::sort(row.marks.begin(), row.marks.end(),
            [](const Mark& a, const Mark& b) { return a.begin < b.begin; });
}

// The streams that communicate; those that do nothing are left out.
void add_transfers(const RankTimeline& rank, double makespan, Labels& labels,
                   std::vector<MarkRow>& rows) {
  for (const StreamKind stream : kCommunicationStreams) {
    MarkRow row{std::string(name_of(stream)), {}};
    for (size_t i = 0; i < rank.times.size(); ++i) {
      const Instruction& instruction = rank.program->instructions[i];
      const InstructionTime& time = rank.times[i];
      if (instruction.stream != stream || time.active < 0) continue;
      const std::string label =
          fmt::format("{} {}", communication_name(instruction), axis_of(instruction));
      row.marks.push_back({time.active, time.end < 0 ? makespan : time.end,
                           MarkKind::kCommunication, labels.of(label), instruction.micro_batch});
    }
    if (!row.marks.empty()) rows.push_back(std::move(row));
  }
}

}  // namespace

size_t count_instructions(const RankTimeline& rank) {
  return static_cast<size_t>(
      std::count_if(rank.times.begin(), rank.times.end(),
                    [](const InstructionTime& time) { return time.active >= 0; }));
}

std::vector<MarkRow> instruction_marks(const RankTimeline& rank, const RankActivity& activity,
                                       double makespan, Labels& labels) {
  MarkRow compute{std::string(name_of(StreamKind::kCompute)), {}};
  for (size_t i = 0; i < rank.times.size(); ++i) {
    const Instruction& instruction = rank.program->instructions[i];
    if (instruction.stream != StreamKind::kCompute || rank.times[i].end < 0) continue;
    const std::string label = fmt::format("{} {}", name_of(instruction.op), instruction.name);
    compute.marks.push_back({rank.times[i].active, rank.times[i].end, kind_of(instruction),
                             labels.of(label), instruction.micro_batch});
  }
  add_waits(activity, labels, compute);
  std::vector<MarkRow> rows = {std::move(compute)};
  add_transfers(rank, makespan, labels, rows);
  return rows;
}

std::vector<MarkRow> pass_marks(const RankTimeline& rank, const RankActivity& activity,
                                double makespan, Labels& labels) {
  MarkRow compute{std::string(name_of(StreamKind::kCompute)), {}};
  for (const Segment& piece : busy_pieces(activity)) {
    const std::string label = piece.micro_batch < 0
                                  ? std::string(name_of(piece.kind))
                                  : fmt::format("{}{}", letter_of(piece.kind), piece.micro_batch);
    compute.marks.push_back(
        {piece.begin, piece.end, kind_of(piece.kind), labels.of(label), piece.micro_batch});
  }
  add_waits(activity, labels, compute);
  std::vector<MarkRow> rows = {std::move(compute)};
  add_transfers(rank, makespan, labels, rows);
  return rows;
}

std::vector<MemoryUse> memory_use(const RankTimeline& rank, double makespan, size_t most) {
  int64_t always = 0;
  for (const ArenaKind arena : {ArenaKind::kParameters, ArenaKind::kGradients,
                                ArenaKind::kOptimizer, ArenaKind::kWorkspace}) {
    always += rank.program->arena_bytes[static_cast<size_t>(arena)];
  }
  const std::vector<MemoryPoint> points = memory_curve(rank);
  std::vector<MemoryUse> use = {{0, always}};
  const bool all = points.size() <= most || makespan <= 0;
  size_t last_slice = most + 1;
  for (const MemoryPoint& point : points) {
    const int64_t bytes = always + point.activations + point.gradients + point.communication;
    const auto slice =
        all ? size_t{0} : static_cast<size_t>(point.time / makespan * static_cast<double>(most));
    if (!all && slice == last_slice) {
      if (bytes > use.back().bytes) use.back() = {point.time, bytes};
    } else if (point.time <= use.back().time) {
      use.back().bytes = bytes;
    } else {
      use.push_back({point.time, bytes});
    }
    last_slice = slice;
  }
  if (!points.empty() && use.back().time < points.back().time) {
    const MemoryPoint& end = points.back();
    use.push_back({end.time, always + end.activations + end.gradients + end.communication});
  }
  return use;
}

}  // namespace tessera
