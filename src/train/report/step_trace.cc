#include "train/report/step_trace.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "compile/lower/lower.h"

namespace tessera {
namespace {

using Span = InstructionTimes::Span;

constexpr int64_t kMostSpans = 3'000'000;  // with passes and messages a trace has a few more events
constexpr size_t kMarks = 9;
using Marks = std::array<double, kMarks>;

// The clock of this rank at moments that are about the same on all.
Marks common_moments(Communicator& control) {
  Marks marks{};
  for (double& mark : marks) {
    control.barrier();
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    mark = std::chrono::duration<double>(now).count();
  }
  return marks;
}

// How far the clock of `theirs` is ahead: the median, since a rank may leave a barrier late.
double ahead(const Marks& theirs, const Marks& ours) {
  Marks differences{};
  for (size_t i = 0; i < kMarks; ++i) differences[i] = theirs[i] - ours[i];
  std::nth_element(differences.begin(), differences.begin() + kMarks / 2, differences.end());
  return differences[kMarks / 2];
}

void put(std::string& to, const void* data, size_t bytes) {
  to.append(static_cast<const char*>(data), bytes);
}

// Takes bytes off the front of a report of another rank.
void take(std::string_view& from, void* data, size_t bytes) {
  TESSERA_CHECK(from.size() >= bytes, "a report of {} bytes where {} were expected", from.size(),
                bytes);
  std::memcpy(data, from.data(), bytes);
  from.remove_prefix(bytes);
}

}  // namespace

StepRange parse_step_range(const std::string& text, std::string_view flag) {
  const size_t dots = text.find("..");
  const std::string first = text.substr(0, dots);
  const std::string last = dots == std::string::npos ? first : text.substr(dots + 2);
  const auto number = [&](const std::string& part) {
    const bool whole = !part.empty() && part.size() < 16 &&
                       part.find_first_not_of("0123456789") == std::string::npos;
    require_config(whole, "{} is '{}': write the first and the last step, such as 3..5", flag,
                   text);
    return std::stoll(part);
  };
  const StepRange range{number(first), number(last)};
  require_config(range.first >= 1 && !range.empty(),
                 "{} is '{}': the first step is 1, and the last is not before the first", flag,
                 text);
  return range;
}

StepTrace::StepTrace(const RunSpec& spec, const StepRange& range, size_t instructions)
    : range_(range) {
  if (range.empty()) return;
  require_config(spec.train.device != TrainDevice::kCuda,
                 "--trace: instructions of a GPU are not timed one by one; use 'tessera simulate "
                 "--trace' for the plan of the step, or train.device = \"cpu\"");
  require_config(range.first <= spec.train.steps,
                 "--trace-steps begins at step {}, but train.steps is {}", range.first,
                 spec.train.steps);
  const double spans = static_cast<double>(instructions) *
                       static_cast<double>(spec.parallel.world()) *
                       static_cast<double>(range.count());
  require_config(spans <= static_cast<double>(kMostSpans),
                 "--trace-steps: {} steps of {} instructions on {} ranks are more than the {} that "
                 "viewers open: trace fewer steps",
                 range.count(), instructions, spec.parallel.world(), with_thousands(kMostSpans));
}

void StepTrace::keep(int64_t step, const std::vector<Span>& spans) { kept_[step] = spans; }

TracedSteps StepTrace::gather(Communicator& control, bool same_clock, const StepGraph& step,
                              const std::map<int, Program>& programs) const {
  const Marks marks = common_moments(control);
  std::string mine;
  put(mine, marks.data(), sizeof(marks));
  for (const auto& [number, spans] : kept_) put(mine, spans.data(), spans.size() * sizeof(Span));
  const std::vector<std::string> reports = exchange_texts(control, mine);
  TracedSteps traced;
  if (control.rank() != 0) return traced;
  for (const auto& [number, spans] : kept_) traced.steps.push_back({number, {}});
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const auto own = programs.find(static_cast<int>(rank));
    traced.programs.push_back(own != programs.end() ? own->second
                                                    : lower(step, static_cast<int>(rank)));
    std::string_view report = reports[rank];
    Marks theirs{};
    take(report, theirs.data(), sizeof(theirs));
    const double offset = same_clock ? 0 : ahead(theirs, marks);
    for (TracedSteps::Step& one : traced.steps) {
      TracedSteps::Spans spans(traced.programs.back().instructions.size());
      take(report, spans.data(), spans.size() * sizeof(Span));
      for (Span& span : spans) span = {span.begin - offset, span.end - offset};
      one.ranks.push_back(std::move(spans));
    }
  }
  return traced;
}

}  // namespace tessera
