#include "sim/run_title.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"

namespace tessera {
namespace {

constexpr size_t kMostPieces = 3;

}  // namespace

std::string run_title(const StepGraph& step) {
  const ParallelSpec& p = step.spec.parallel;
  std::string text = fmt::format("{} parameters, {}", with_thousands(step.layout.num_parameters),
                                 name_of(step.spec.train.dtype));
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
  if (p.pp > 1) text += " " + step.stages.schedule.name;
  if (p.cp > 1) text += " " + p.cp_kind;
  if (p.tp > 1 && p.sequence_parallel) text += " sequence_parallel";
  if (p.recompute != "none") text += " recompute=" + p.recompute;
  return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  std::vector<std::string> pieces;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    pieces.push_back(first == last ? std::to_string(ranks[first])
                                   : fmt::format("{}-{}", ranks[first], ranks[last]));
    first = last + 1;
  }
  if (pieces.size() > kMostPieces) {
    return fmt::format("{} ranks from {}", ranks.size(), ranks.front());
  }
  return fmt::format("ranks {}", fmt::join(pieces, ", "));
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
