#include "serve/ranks/frame_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/text.h"

namespace tessera::serve {
namespace {

using nlohmann::ordered_json;

double micros(int64_t ns) { return static_cast<double>(ns) / 1e3; }

ordered_json name_event(int rank) {
  return {{"name", "process_name"},
          {"ph", "M"},
          {"pid", rank},
          {"args", {{"name", fmt::format("rank {}", rank)}}}};
}

void add_wait(const char* name, int rank, int64_t from_ns, int64_t to_ns,
              std::vector<std::string>& lines) {
  if (to_ns <= from_ns) return;
  lines.push_back(ordered_json({{"name", name},
                                {"cat", "wait"},
                                {"ph", "X"},
                                {"pid", rank},
                                {"tid", 1},
                                {"ts", micros(from_ns)},
                                {"dur", micros(to_ns - from_ns)}})
                      .dump());
}

}  // namespace

void FrameTrace::add(const Frame& frame) {
  if (frame.number == 0 || frames_.size() >= most_frames_) return;
  std::vector<Sequence>& sequences = frames_[frame.number];
  for (const FrameSequence& one : frame.sequences) {
    sequences.push_back({.first_page = one.pages.empty() ? -1 : one.pages.front(),
                         .cached = one.cached,
                         .tokens = one.num_tokens});
  }
}

void FrameTrace::add(std::span<const RankFrameTimes> times) {
  for (const RankFrameTimes& one : times) {
    if (frames_.contains(one.times.number)) times_.push_back(one);
  }
}

std::string FrameTrace::json() const {
  int64_t begin = INT64_MAX;
  for (const RankFrameTimes& one : times_) begin = std::min(begin, one.times.begin_ns);
  std::vector<std::string> lines;
  for (int rank = 0; rank < ranks_; ++rank) lines.push_back(name_event(rank).dump());
  for (const RankFrameTimes& one : times_) {
    int64_t chunks = 0, chunk_tokens = 0, texts = 0;
    ordered_json sequences = ordered_json::array();
    for (const Sequence& sequence : frames_.at(one.times.number)) {
      const bool is_text = sequence.tokens == 1;
      texts += is_text ? 1 : 0;
      chunks += is_text ? 0 : 1;
      chunk_tokens += is_text ? 0 : sequence.tokens;
      sequences.push_back(fmt::format("page {}: tokens {} to {}", sequence.first_page,
                                      sequence.cached, sequence.cached + sequence.tokens - 1));
    }
    const FrameTimes& times = one.times;
    add_wait("waits for the stage before", one.rank, times.begin_ns - begin, times.input_ns - begin,
             lines);
    std::string name = fmt::format("frame {}:", times.number);
    if (chunks > 0) name += fmt::format(" {} of {}", count_of(chunks, "chunk"), chunk_tokens);
    if (texts > 0) name += fmt::format("{} {}", chunks > 0 ? "," : "", count_of(texts, "text"));
    lines.push_back(ordered_json({{"name", name},
                                  {"cat", chunks > 0 ? "prompt" : "answer"},
                                  {"ph", "X"},
                                  {"pid", one.rank},
                                  {"tid", 1},
                                  {"ts", micros(times.input_ns - begin)},
                                  {"dur", micros(times.output_ns - times.input_ns)},
                                  {"args", {{"sequences", sequences}}}})
                        .dump());
    add_wait("waits for the next stage", one.rank, times.output_ns - begin, times.end_ns - begin,
             lines);
  }
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n",
                     fmt::join(lines, ",\n"));
}

void TracingFrameRunner::start(const Frame& frame) {
  trace_->add(frame);
  inner_->start(frame);
}

FrameResult TracingFrameRunner::finish() {
  FrameResult result = inner_->finish();
  trace_->add(inner_->take_times());
  return result;
}

}  // namespace tessera::serve
