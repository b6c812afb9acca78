#include "spec/nearby.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "spec/keys.h"

namespace tessera {
namespace {

// Searching divisors costs the square root of a number; nothing valid is larger than this.
constexpr int64_t kMaxFactored = int64_t{1'000'000'000'000};

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> small, large;
  if (number > kMaxFactored) return {1, number};
  for (int64_t d = 1; d <= number / d; ++d) {
    if (number % d != 0) continue;
    small.push_back(d);
    if (d != number / d) large.push_back(number / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

// By which factor the sizes differ; a new axis is a larger change than a resized one.
double change(int64_t from, int64_t to) {
  const double factor =
      static_cast<double>(std::max(from, to)) / static_cast<double>(std::min(from, to));
  return factor * (from == 1 && to != 1 ? 2 : 1);
}

}  // namespace

std::vector<int64_t> nearby_divisors(int64_t number, int64_t wanted) {
  const std::vector<int64_t> all = divisors(number);
  const auto above = std::lower_bound(all.begin(), all.end(), wanted);
  std::vector<int64_t> result;
  if (above != all.begin()) result.push_back(*(above - 1));
  if (above != all.end()) result.push_back(*above);
  return result;
}

std::vector<int64_t> nearby_multiples(int64_t wanted, int64_t unit) {
  const int64_t below = wanted / unit * unit;
  std::vector<int64_t> result;
  if (below > 0) result.push_back(below);
  if (below <= std::numeric_limits<int64_t>::max() - unit) result.push_back(below + unit);
  return result;
}

std::string either(const std::vector<int64_t>& values) {
  return fmt::format("{}", fmt::join(values, " or "));
}

std::string mesh_text(const ParallelSpec& parallel, std::string_view separator) {
  const std::array<std::pair<std::string_view, int64_t>, 5> axes = {{{"pp", parallel.pp},
                                                                     {"dp", parallel.dp},
                                                                     {"fsdp", parallel.fsdp},
                                                                     {"cp", parallel.cp},
                                                                     {"tp", parallel.tp}}};
  std::vector<std::string> pieces;
  for (const auto& [name, size] : axes) {
    if (size != 1) pieces.push_back(fmt::format("{}={}", name, size));
  }
  return pieces.empty() ? "dp=1" : fmt::format("{}", fmt::join(pieces, separator));
}

std::string nearby_meshes(const ParallelSpec& parallel, int64_t ranks, int64_t heads) {
  constexpr size_t kOffered = 3;
  // (total change, change of tp, mesh): tp is the axis that the model's heads must allow.
  std::vector<std::tuple<double, double, std::string>> meshes;
  for (const int64_t dp : divisors(ranks)) {
    for (const int64_t fsdp : divisors(ranks / dp)) {
      ParallelSpec mesh;
      mesh.dp = dp;
      mesh.fsdp = fsdp;
      mesh.tp = ranks / dp / fsdp;
      if (std::max({mesh.dp, mesh.fsdp, mesh.tp}) > kMaxAxis) continue;
      const double tp_change = change(parallel.tp, mesh.tp);
      const double total = change(parallel.dp, dp) * change(parallel.fsdp, fsdp) * tp_change;
      if (heads > 0 && heads % mesh.tp != 0) continue;
      meshes.emplace_back(total, tp_change, mesh_text(mesh, ","));
    }
  }
  std::sort(meshes.begin(), meshes.end());
  std::vector<std::string> texts;
  for (const auto& mesh : meshes) {
    if (texts.size() < kOffered) texts.push_back(std::get<2>(mesh));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace tessera
