#include "draw/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text/ranks_text.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "draw/memory_curve.h"
#include "draw/run_title.h"

namespace tessera {
namespace {

constexpr size_t kMostEvents = 4'000'000;

// Threads of a rank; what runs at the same time is on different ones.
enum Lane : int { kCompute = 1, kModelAxes = 2, kPipeline = 3, kDataAxes = 4 };

// `apart`: weights and gradients have a stream of their own.
Lane lane_of(const Instruction& instruction, bool apart) {
  if (instruction.stream == StreamKind::kCompute) return kCompute;
  if (instruction.stream == StreamKind::kPipe) return kPipeline;
  if (apart) return instruction.stream == StreamKind::kData ? kDataAxes : kModelAxes;
  const bool data =
      instruction.tag.pass == Pass::kReduce || instruction.tag.pass == Pass::kUpdate ||
      instruction.group.contains(Axis::kDp) || instruction.group.contains(Axis::kFsdp);
  return data ? kDataAxes : kModelAxes;
}

bool has_data_stream(const Program& program) {
  return std::any_of(
      program.instructions.begin(), program.instructions.end(),
      [](const Instruction& instruction) { return instruction.stream == StreamKind::kData; });
}

std::string_view category_of(const Instruction& instruction) {
  if (instruction.stream != StreamKind::kCompute) return "communication";
  switch (instruction.tag.pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kInputGrad:
      return "input_grad";
    case Pass::kWeightGrad:
      return "weight_grad";
    case Pass::kReduce:
      return "reduce";
    case Pass::kUpdate:
      return "update";
    case Pass::kRecompute:
      return "recompute";
  }
  return "";
}

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(); }

// Whole nanoseconds, in microseconds.
std::string micros(double seconds) { return fmt::format("{:.3f}", seconds * 1e6); }

class TraceWriter {
 public:
  // What follows is about this step; both must outlive the next call.
  void begin_step(const StepTimeline& timeline, const std::vector<RankActivity>& activities) {
    timeline_ = &timeline;
    activities_ = &activities;
  }

  void add_rank(size_t of_class) {
    const RankTimeline& rank = timeline_->ranks[of_class];
    const int pid = rank.ranks.front();
    apart_ = has_data_stream(*rank.program);
    if (named_.insert(pid).second) add_names(rank, pid);
    for (const Segment& segment : (*activities_)[of_class].segments) add_segment(segment, pid);
    for (size_t i = 0; i < rank.times.size(); ++i) {
      if (rank.times[i].active >= 0) add_instruction(rank, i, pid);
    }
    add_memory(rank, pid);
  }

  // Between ranks that are both in the trace.
  void add_messages() {
    std::map<std::pair<int, int>, std::vector<Message>> sent, received;
    for (size_t c = 0; c < timeline_->ranks.size(); ++c) {
      const RankTimeline& rank = timeline_->ranks[c];
      for (size_t i = 0; i < rank.times.size(); ++i) {
        const Instruction& instruction = rank.program->instructions[i];
        if (instruction.stream != StreamKind::kPipe || rank.times[i].end < 0) continue;
        const int own = static_cast<int>(c);
        const int peer = peer_class(rank, instruction);
        const Message message{rank.ranks.front(), rank.times[i]};
        if (instruction.op == OpKind::kSend) sent[{own, peer}].push_back(message);
        if (instruction.op == OpKind::kReceive) received[{peer, own}].push_back(message);
      }
    }
    for (const auto& [pair, from] : sent) {
      const std::vector<Message>& to = received[pair];
      for (size_t k = 0; k < std::min(from.size(), to.size()); ++k) add_flow(from[k], to[k]);
    }
  }

  [[nodiscard]] std::string str(const std::string& head) {
    require(events_.size() <= kMostEvents,
            "the trace would have {} events, more than the {} that viewers open: take fewer "
            "micro-batches (train.global_batch), layers or steps",
            events_.size(), kMostEvents);
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.time < b.time; });
    std::string text = head + "\"traceEvents\":[\n";
    size_t size = text.size() + 4;
    for (const Event& event : events_) size += event.text.size() + 2;
    text.reserve(size);
    for (size_t i = 0; i < events_.size(); ++i) {
      text += events_[i].text;
      text += i + 1 < events_.size() ? ",\n" : "\n";
    }
    text += "]}\n";
    return text;
  }

 private:
  struct Event {
    double time = 0;  // names come before everything
    std::string text;
  };
  struct Message {
    int rank = 0;
    InstructionTime time;
  };

  void add(double time, std::string text) { events_.push_back({time, std::move(text)}); }

  void add_names(const RankTimeline& rank, int pid) {
    std::string name = fmt::format("rank {}", pid);
    const std::string coords = timeline_->mesh.describe(pid);
    if (!coords.empty()) name += " · " + coords;
    if (rank.ranks.size() > 1) name += fmt::format(" ({})", ranks_text(rank.ranks));
    constexpr double kBefore = -1;
    add(kBefore, fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})",
                             pid, json_text(name)));
    add(kBefore,
        fmt::format(
            R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
            pid));
    std::map<int, std::string_view> lanes;
    for (const Instruction& instruction : rank.program->instructions) {
      const Lane lane = lane_of(instruction, apart_);
      lanes[lane] = lane == kCompute     ? "compute"
                    : lane == kModelAxes ? "tp cp ep"
                    : lane == kPipeline  ? "pp send/receive"
                                         : "dp fsdp";
    }
    for (const auto& [lane, lane_name] : lanes) {
      add(kBefore, fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},)"
                               R"("args":{{"name":{}}}}})",
                               pid, lane, json_text(lane_name)));
    }
  }

  void add_slice(const std::string& name, std::string_view category, int pid, int tid, double begin,
                 double end, const std::string& args) {
    add(begin,
        fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},)"
                    R"("dur":{},"args":{{{}}}}})",
                    json_text(name), category, pid, tid, micros(begin), micros(end - begin), args));
  }

  void add_segment(const Segment& segment, int pid) {
    const bool update = segment.micro_batch < 0;
    const std::string name =
        update ? std::string(name_of(segment.kind))
               : fmt::format("{}{}", letter_of(segment.kind), segment.micro_batch);
    add_slice(name, "pass", pid, kCompute, segment.begin, segment.end,
              update ? "" : fmt::format(R"("mb":{})", segment.micro_batch));
  }

  void add_instruction(const RankTimeline& rank, size_t i, int pid) {
    const Instruction& instruction = rank.program->instructions[i];
    const InstructionTime& time = rank.times[i];
    const double end = time.end < 0 ? timeline_->makespan : time.end;
    const bool kernel = instruction.stream == StreamKind::kCompute;
    const std::string_view op = kernel ? name_of(instruction.op) : communication_name(instruction);
    std::string args = fmt::format(R"("value":{},"instruction":{},"unit":{})",
                                   json_text(instruction.name), i, instruction.tag.unit);
    if (instruction.micro_batch >= 0) args += fmt::format(R"(,"mb":{})", instruction.micro_batch);
    if (!kernel) {
      args += fmt::format(R"(,"group":"{}","waited_us":{})", axis_of(instruction),
                          micros(time.active - time.begin));
    }
    const std::string name =
        kernel ? std::string(op) : fmt::format("{} {}", op, axis_of(instruction));
    add_slice(name, category_of(instruction), pid, lane_of(instruction, apart_), time.active, end,
              args);
  }

  void add_memory(const RankTimeline& rank, int pid) {
    const auto& arenas = rank.program->arena_bytes;
    const auto constant = [&](ArenaKind arena) {
      return static_cast<double>(arenas[static_cast<size_t>(arena)]) / kGibibyte;
    };
    const std::string fixed =
        fmt::format(R"("parameters":{:.6f},"optimizer":{:.6f})", constant(ArenaKind::kParameters),
                    constant(ArenaKind::kOptimizer));
    for (const MemoryPoint& point : memory_curve(rank)) {
      add(point.time,
          fmt::format(
              R"({{"ph":"C","name":"memory GiB","pid":{},"ts":{},"args":{{)"
              R"("activations":{:.6f},"gradients":{:.6f},"communication":{:.6f},{}}}}})",
              pid, micros(point.time), static_cast<double>(point.activations) / kGibibyte,
              constant(ArenaKind::kGradients) + static_cast<double>(point.gradients) / kGibibyte,
              static_cast<double>(point.communication) / kGibibyte, fixed));
    }
  }

  [[nodiscard]] int peer_class(const RankTimeline& rank, const Instruction& instruction) const {
    const std::vector<int> members = timeline_->mesh.peers(rank.ranks.front(), instruction.group);
    const int peer = members[static_cast<size_t>(instruction.peer)];
    return timeline_->classes.of_rank[static_cast<size_t>(peer)];
  }

  // An arrow from the begin of the send to the end of the receive, inside both slices.
  void add_flow(const Message& from, const Message& to) {
    ++flows_;
    add(from.time.active,
        fmt::format(R"({{"ph":"s","id":{},"name":"p2p","cat":"flow","pid":{},"tid":{},"ts":{}}})",
                    flows_, from.rank, static_cast<int>(kPipeline), micros(from.time.active)));
    add(to.time.active,
        fmt::format(R"({{"ph":"f","bp":"e","id":{},"name":"p2p","cat":"flow",)"
                    R"("pid":{},"tid":{},"ts":{}}})",
                    flows_, to.rank, static_cast<int>(kPipeline), micros(to.time.active)));
  }

  const StepTimeline* timeline_ = nullptr;
  const std::vector<RankActivity>* activities_ = nullptr;
  std::set<int> named_;  // processes
  std::vector<Event> events_;
  bool apart_ = false;  // of the rank that is being added
  int flows_ = 0;
};

std::string head_of(const StepTimeline& timeline, int rank, const TraceOptions& options) {
  return fmt::format(R"({{"displayTimeUnit":"ms","schemaVersion":1,"distributedInfo":)"
                     R"({{"backend":{},"rank":{},"world_size":{}}},"otherData":)"
                     R"({{"tool":"tessera","config_digest":{}}},)",
                     json_text(options.backend), rank, timeline.mesh.world(),
                     json_text(options.config_digest));
}

}  // namespace

std::string trace_json(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
                       const TraceOptions& options) {
  TraceWriter writer;
  writer.begin_step(timeline, activities);
  for (size_t c = 0; c < timeline.ranks.size(); ++c) writer.add_rank(c);
  writer.add_messages();
  return writer.str(head_of(timeline, 0, options));
}

std::string trace_json(const std::vector<StepTimeline>& steps, const TraceOptions& options) {
  TESSERA_CHECK(!steps.empty(), "a trace of no step");
  TraceWriter writer;
  for (const StepTimeline& step : steps) {
    const std::vector<RankActivity> activities = activity_of(step);
    writer.begin_step(step, activities);
    for (size_t c = 0; c < step.ranks.size(); ++c) writer.add_rank(c);
    writer.add_messages();
  }
  return writer.str(head_of(steps.front(), 0, options));
}

std::string trace_json_of(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
                          size_t of_class, const TraceOptions& options) {
  TraceWriter writer;
  writer.begin_step(timeline, activities);
  writer.add_rank(of_class);
  return writer.str(head_of(timeline, timeline.ranks[of_class].ranks.front(), options));
}

}  // namespace tessera
