#include "compile/lower/first_fit.h"

#include <algorithm>
#include <tuple>

namespace tessera {
namespace {

constexpr size_t kMostInRun = 128;

}  // namespace

void FirstFit::Run::summarize() {
  const Placed& front = placed.front();
  max_end = front.end;
  max_gap = 0;
  any = all = front.alive;
  for (const Placed& one : placed) {
    max_gap = std::max(max_gap, one.offset - max_end);
    max_end = std::max(max_end, one.end);
    any = {std::min(any.first, one.alive.first), std::max(any.last, one.alive.last)};
    all = {std::max(all.first, one.alive.first), std::min(all.last, one.alive.last)};
  }
}

bool FirstFit::search(const Run& run, Lifetime alive, int64_t bytes, int64_t& at) const {
  const int64_t begins = run.placed.front().offset;
  // All of them are in the way, with no room between: the same as one large one.
  if (alive.first <= run.all.last && run.all.first <= alive.last && begins < at + bytes &&
      run.max_gap < bytes) {
    at = std::max(at, run.max_end);
    return false;
  }
  for (const Placed& other : run.placed) {
    ++looked_at_;
    if (alive.first > other.alive.last || other.alive.first > alive.last) continue;
    if (other.offset >= at + bytes) return true;
    at = std::max(at, other.end);
  }
  return false;
}

int64_t FirstFit::place_for(Lifetime alive, int64_t bytes) const {
  int64_t at = 0;
  for (const Run& run : runs_) {
    ++looked_at_;
    const bool apart = alive.first > run.any.last || run.any.first > alive.last;
    if (apart || run.max_end <= at) continue;
    if (search(run, alive, bytes, at)) break;
  }
  return at;
}

void FirstFit::add(Lifetime alive, int64_t offset, int64_t bytes) {
  bytes_ = std::max(bytes_, offset + bytes);
  const Placed added{offset, offset + bytes, alive};
  const auto before = [](const Placed& a, const Placed& b) {
    return std::tie(a.offset, a.alive.first) < std::tie(b.offset, b.alive.first);
  };
  if (runs_.empty()) runs_.emplace_back();
  auto run = std::partition_point(runs_.begin() + 1, runs_.end(),
                                  [&](const Run& r) { return !before(added, r.placed.front()); });
  --run;
  std::vector<Placed>& placed = run->placed;
  placed.insert(std::upper_bound(placed.begin(), placed.end(), added, before), added);
  if (placed.size() > kMostInRun) {
    Run rest;
    rest.placed.assign(placed.begin() + kMostInRun / 2, placed.end());
    placed.resize(kMostInRun / 2);
    rest.summarize();
    run->summarize();
    runs_.insert(run + 1, std::move(rest));
    return;
  }
  run->summarize();
}

}  // namespace tessera
