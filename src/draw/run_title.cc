#include "draw/run_title.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/text.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Equal choices of neighbouring pipeline ranks are counted: "full", "3 x full/none".
std::string recompute_text(const std::string& choices) {
  const std::vector<std::string_view> parts = split(choices, '/');
  std::vector<std::string> runs;
  for (size_t first = 0, end = 0; first < parts.size(); first = end) {
    while (end < parts.size() && parts[end] == parts[first]) ++end;
    const size_t count = end - first;
    const bool counted = count > 1 && count < parts.size();
    runs.push_back(counted ? fmt::format("{} x {}", count, parts[first])
                           : std::string(parts[first]));
  }
  return fmt::format("{}", fmt::join(runs, "/"));
}

}  // namespace

std::string run_title(const StepGraph& step) {
  return run_title(step.spec, step.layout.num_parameters, step.stages.schedule.name);
}

std::string run_title(const RunSpec& spec, int64_t num_parameters, const std::string& schedule) {
  const ParallelSpec& p = spec.parallel;
  std::string text =
      fmt::format("{} parameters, {}", with_thousands(num_parameters), spec.train.dtype_name());
  if (p.world() == 1) return text + ", one rank";
  text += ",";
  const auto axis = [&text](const char* name, int64_t size) {
    if (size > 1) text += fmt::format(" {}={}", name, size);
  };
  axis("pp", p.pp);
  axis("dp", p.dp);
  axis("fsdp", p.fsdp);
  axis("cp", p.cp);
  axis("tp", p.tp);
  axis("ep", p.ep);
  if (p.dp * p.fsdp * p.cp > 1) text += fmt::format(" zero={}", p.zero);
  if (p.pp > 1) text += " " + schedule;
  if (p.cp > 1) text += fmt::format(" {}", name_of(p.cp_kind));
  if (p.tp > 1 && p.sequence_parallel) text += " sequence_parallel";
  const std::string recompute = recompute_text(p.recompute);
  if (recompute != name_of(Recompute::kNone)) text += " recompute=" + recompute;
  return text;
}

std::string full_run_title(const RunSpec& spec, int64_t num_parameters,
                           const std::string& schedule) {
  const std::string& model = spec.model.preset.empty() ? spec.model.hf : spec.model.preset;
  return fmt::format(
      "{}{}, {} of {} tokens in {}", model.empty() ? "" : model + ", ",
      run_title(spec, num_parameters, schedule), count_of(spec.train.global_batch, "sequence"),
      with_thousands(spec.train.seq_len), count_of(accumulation(spec), "micro-batch"));
}

std::string shared_coords(const Mesh& mesh, const std::vector<int>& ranks) {
  std::vector<std::string> coords;
  for (const Axis axis : kAllAxes) {
    const int64_t coord = mesh.coord(ranks.front(), axis);
    const bool shared = std::all_of(ranks.begin(), ranks.end(),
                                    [&](int rank) { return mesh.coord(rank, axis) == coord; });
    if (mesh.size(axis) > 1 && shared) coords.push_back(fmt::format("{}{}", name_of(axis), coord));
  }
  return fmt::format("{}", fmt::join(coords, " "));
}

}  // namespace tessera
