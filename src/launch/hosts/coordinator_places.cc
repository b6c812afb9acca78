// The part of the coordinator that decides which hosts have ranks: who gets which place, how many
// places there are, and when there is room for more.
#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "launch/hosts/coordinator.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

// The most hosts that the run may have of those that are there; 0: too few are. It begins with no
// more than its run file says.
int Coordinator::fitting_size() const {
  const auto there = static_cast<int>(std::count_if(
      hosts_.begin(), hosts_.end(), [](const auto& entry) { return entry.second.connected; }));
  const int most = state_.generation == 0 ? std::min(there, options_.hosts) : there;
  int fitting = 0;
  for (const int size : options_.sizes) fitting = size <= most ? std::max(fitting, size) : fitting;
  return fitting;
}

// More places at once, fewer when nobody has come for a while. Whoever starts the hosts may need
// its time at the beginning.
void Coordinator::fit_places(Time now) {
  const auto size = static_cast<int>(state_.places.size());
  const int fitting = fitting_size();
  const milliseconds patience = begun_ ? options_.lease : options_.host_wait;
  if (fitting == 0 || (fitting < size && now < phase_since_ + patience)) return;
  if (fitting < size) {
    std::erase_if(state_.places, [&](int placed) { return find(placed) == nullptr; });
  }
  state_.places.resize(static_cast<size_t>(fitting), kNobody);
}

void Coordinator::fill_places(bool with_spares) {
  for (size_t place = 0; place < state_.places.size(); ++place) {
    int& placed = state_.places[place];
    if (placed != kNobody && find(placed) == nullptr) placed = kNobody;
    const auto usual = static_cast<int>(place);
    if (placed == kNobody && find(usual) != nullptr && !place_of(usual)) placed = usual;
  }
  for (size_t place = 0; with_spares && place < state_.places.size(); ++place) {
    if (state_.places[place] != kNobody) continue;
    const auto waits = std::find_if(hosts_.begin(), hosts_.end(), [&](const auto& entry) {
      return !place_of(entry.first).has_value();
    });
    if (waits == hosts_.end()) return;
    state_.places[place] = waits->first;
    const bool for_another = find(static_cast<int>(place)) == nullptr;
    if (for_another) note(fmt::format("host {} takes the place of host {}", waits->first, place));
  }
}

void Coordinator::gather(Time now) {
  const bool late = now >= phase_since_ + options_.host_wait;
  fit_places(now);
  // At the start of a run the spares may just be faster than the others.
  fill_places(state_.generation > 0 || now >= phase_since_ + options_.host_wait / 2);
  const bool filled = std::count(state_.places.begin(), state_.places.end(), kNobody) == 0;
  const bool idle = std::all_of(hosts_.begin(), hosts_.end(),
                                [](const auto& entry) { return entry.second.has == 0; });
  if (filled && idle && now >= recover_until_) return begin_generation(now);
  if (late) finish(static_cast<int>(ExitCode::kNoQuorum), missing_text());
}

std::string Coordinator::missing_text() const {
  std::string absent;
  for (size_t place = 0; place < state_.places.size(); ++place) {
    if (state_.places[place] != kNobody) continue;
    absent += fmt::format("{}{}", absent.empty() ? "" : ", ", place);
  }
  if (absent.empty()) {
    return fmt::format("a host did not end its ranks within {:.0f} s", seconds(options_.host_wait));
  }
  return fmt::format(
      "{} of {} hosts are there: waited {:.0f} s for host {}; start it, or a spare (--host-rank "
      "{})",
      static_cast<int64_t>(state_.places.size()) -
          std::count(state_.places.begin(), state_.places.end(), kNobody),
      state_.places.size(), seconds(options_.host_wait), absent, options_.hosts);
}

// Not before a generation has done a step: what it costs to start one must not be all that is done.
void Coordinator::look_for_room() {
  if (!watch_ || !why_room_.empty() || loss_ || stop_code_) return;
  if (fitting_size() <= static_cast<int>(state_.places.size())) return;
  const RunState& run = watch_->run();
  if (run.section != RunSection::kStep || run.steps_done == 0) return;
  if (first_step_ < 0) first_step_ = run.steps_done;
  const int64_t steps = run.steps_done - first_step_;
  if (!asked_for_room_ && steps < std::max<int64_t>(1, options_.grow_after)) return;
  why_room_ = asked_for_room_            ? "SIGUSR2"
              : options_.grow_after == 0 ? "a host has come"
                                         : count_of(options_.grow_after, "good step");
  for (const int placed : state_.places) {
    order(placed, ControlKind::kRanks, state_.generation,
          to_body(RankCommand{.kind = RankCommand::Kind::kMakeRoom}));
  }
}

}  // namespace tessera
