#include "serve/predict/frame_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "graph/op_table.h"

namespace tessera::serve {
namespace {

TimeTerms mix(const TimeTerms& a, const TimeTerms& b, double part) {
  TimeTerms terms{};
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = a[i] + part * (b[i] - a[i]);
  return terms;
}

TimeTerms times(TimeTerms terms, double factor) {
  for (double& term : terms) term *= factor;
  return terms;
}

// Beyond the most tokens that were measured a weight is multiplied with more of them.
TimeTerms beyond(const std::pair<const int, TimeTerms>& last, int64_t tokens) {
  TimeTerms terms = last.second;
  terms[static_cast<size_t>(TimeTerm::kRight)] *=
      static_cast<double>(tokens) / static_cast<double>(last.first);
  return terms;
}

TimeTerms at_tokens(const std::map<int, TimeTerms>& measured, int64_t tokens) {
  const auto above = measured.lower_bound(static_cast<int>(std::min<int64_t>(tokens, 1 << 24)));
  if (above == measured.end()) return beyond(*measured.rbegin(), tokens);
  if (above->first == tokens || above == measured.begin()) return above->second;
  const auto below = std::prev(above);
  return mix(below->second, above->second,
             static_cast<double>(tokens - below->first) /
                 static_cast<double>(above->first - below->first));
}

}  // namespace

FrameRates::FrameRates(const MeasuredMachine& machine) : machine_(machine) {
  for (const MeasuredKernel& kernel : machine.kernels) {
    if (kernel.tokens == 0) continue;
    by_tokens_[{kernel.op, kernel.type, kernel.threads}][kernel.tokens] = kernel.fit.seconds;
  }
}

bool FrameRates::has(DType type) const {
  return std::any_of(by_tokens_.begin(), by_tokens_.end(), [&](const auto& entry) {
    return std::get<0>(entry.first) == name_of(OpKind::kServeLinear) &&
           std::get<1>(entry.first) == type;
  });
}

const FrameRates::Tokens* FrameRates::find(const std::string& op, DType type, int threads,
                                           int& measured_threads) const {
  const Tokens* best = nullptr;
  for (auto at = by_tokens_.lower_bound({op, type, 0}); at != by_tokens_.end(); ++at) {
    const auto& [name, of_type, team] = at->first;
    if (name != op || of_type != type) break;
    if (best != nullptr && std::abs(team - threads) >= std::abs(measured_threads - threads))
      continue;
    best = &at->second;
    measured_threads = team;
  }
  return best;
}

std::optional<TimeTerms> FrameRates::of(const std::string& op, DType type, int threads,
                                        int64_t tokens) const {
  int team = threads;
  const Tokens* measured = find(op, type, threads, team);
  if (measured == nullptr) return std::nullopt;
  return times(at_tokens(*measured, tokens),
               static_cast<double>(team) / static_cast<double>(threads));
}

std::optional<TimeTerms> FrameRates::of(const Instruction& instruction, DType type, int threads,
                                        int64_t tokens) const {
  const std::string op_class =
      std::string(kClassMark) + std::string(name_of(class_of(instruction.op)));
  for (const std::string& name : {std::string(name_of(instruction.op)), op_class}) {
    // Integers and sums in f64 are the same in every type.
    for (const DType candidate : {type, DType::kF32, DType::kBF16}) {
      if (auto found = of(name, candidate, threads, tokens)) return found;
    }
  }
  return std::nullopt;
}

MissShares FrameRates::misses(int threads, double bytes) const {
  const ReadingShares* nearest = nullptr;
  for (const ReadingShares& one : machine_.reading) {
    if (nearest == nullptr ||
        std::abs(one.threads - threads) < std::abs(nearest->threads - threads)) {
      nearest = &one;
    }
  }
  if (nearest == nullptr || nearest->points.empty()) return {};
  const auto& points = nearest->points;
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const ReadingShare& p) { return p.bytes >= bytes; });
  if (above == points.end()) return {points.back().mid, points.back().far};
  if (above == points.begin()) return {above->mid, above->far};
  const ReadingShare& below = *std::prev(above);
  const double part = (bytes - below.bytes) / (above->bytes - below.bytes);
  return {below.mid + part * (above->mid - below.mid), below.far + part * (above->far - below.far)};
}

std::string host_work(int64_t ranks, std::string_view ranks_are) {
  return ranks == 1 ? std::string(kHostWork)
                    : fmt::format("{} of {} {}", kHostWork, ranks, ranks_are);
}

}  // namespace tessera::serve
