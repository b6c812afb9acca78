#include "launch/rank_failure.h"

#include <charconv>

namespace tessera {

void abort_as_rank(CommWorld& world, const std::string& text) {
  world.abort(fmt::format("rank {}: {}", world.rank(), text));
}

std::optional<int> rank_of_reason(std::string_view reason) {
  constexpr std::string_view kBegin = "rank ";
  if (!reason.starts_with(kBegin)) return std::nullopt;
  reason.remove_prefix(kBegin.size());
  int rank = 0;
  const auto [end, failure] = std::from_chars(reason.data(), reason.data() + reason.size(), rank);
  if (failure != std::errc() || rank < 0) return std::nullopt;
  const std::string_view rest(end, static_cast<size_t>(reason.data() + reason.size() - end));
  // "rank 2 called …" tells of two ranks that disagree; which of them is wrong is not known.
  if (!rest.starts_with(": ") && !rest.starts_with(" (pid ")) return std::nullopt;
  return rank;
}

std::optional<int> rank_waited_for(std::string_view reason) {
  constexpr std::string_view kFor = " for rank ";
  if (!reason.starts_with("group ") || reason.find(" waited ") == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t at = reason.find(kFor);
  if (at == std::string_view::npos) return std::nullopt;
  return rank_of_reason(reason.substr(at + 5));
}

}  // namespace tessera
