#include "train/session/snapshots.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "spec/run_file/run_file.h"
#include "train/session/control.h"
#include "train/session/resume.h"

namespace tessera {
namespace {

// Nothing of another run can be used, nor of the same on another mesh.
uint64_t key_of(const RunSpec& spec, const std::vector<int64_t>& copy_bytes) {
  Hasher hasher;
  hasher.add(identity_of_run(spec).dump());
  hasher.add(to_json(spec).at("parallel").dump());
  for (const int64_t bytes : copy_bytes) hasher.add(bytes);
  return hasher.value();
}

void copy_common(const WantedBox& wanted, const Placed& place, const std::byte* from) {
  const std::optional<Box> common = intersection(wanted.place.box, place.box);
  if (!common) return;
  const int64_t element = size_bits(wanted.type) / 8;
  for_each_common_run(wanted.place, place, *common, [&](int64_t to, int64_t at, int64_t count) {
    std::memcpy(wanted.memory + to * element, from + at * element,
                static_cast<size_t>(count * element));
  });
}

}  // namespace

Snapshots::Snapshots(Kept file, const RunSpec& spec, const StepGraph& step, Executor& executor,
                     Communicator& control, Failpoint failpoint)
    : step_(step),
      executor_(executor),
      control_(control),
      failpoint_(std::move(failpoint)),
      generation_(static_cast<uint64_t>(file.generation)),
      plan_(std::make_shared<CheckpointPlan>(step)) {
  std::vector<int64_t> copy_bytes;
  for (int rank = 0; rank < control.size(); ++rank) {
    layouts_.push_back(lay_out_staging(plan_->layout, plan_->save, rank));
    copy_bytes.push_back(layouts_.back().copy_bytes);
  }
  memory_ = std::make_shared<SnapshotMemory>(file.fd, copy_bytes, control.rank(),
                                             key_of(spec, copy_bytes));
  RankDevice& device = executor.rank().device();
  const auto pinned = std::make_shared<const HostArena>(device.adopt_staging(
      {"snapshots", memory_->copies(), memory_->copies_bytes(), [memory = memory_] {}}));
  staging_ = std::make_shared<Staging>(
      device, layouts_[static_cast<size_t>(control.rank())], pinned,
      std::vector<std::byte*>{memory_->copy(0), memory_->copy(1)}, spec.checkpoint.async);
}

std::optional<FoundSnapshot> Snapshots::find(const std::function<void(const std::string&)>& note) {
  nlohmann::json mine = nlohmann::json::array();
  for (const SnapshotMemory::Sealed& one : memory_->sealed()) {
    mine.push_back({one.name.step, one.name.generation, one.problem});
  }
  std::map<SnapshotName, int> whole;  // on how many ranks
  const std::vector<std::string> all = exchange_texts(control_, mine.dump());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const nlohmann::json& one : nlohmann::json::parse(all[rank])) {
      const SnapshotName name{one.at(0).get<int64_t>(), one.at(1).get<uint64_t>()};
      const auto problem = one.at(2).get<std::string>();
      if (problem.empty()) {
        ++whole[name];
      } else if (control_.rank() == 0) {
        note(fmt::format("the snapshot of step {} of rank {} cannot be used: {}", name.step, rank,
                         problem));
      }
    }
  }
  for (auto one = whole.rbegin(); one != whole.rend(); ++one) {
    if (one->second == control_.size()) {
      return FoundSnapshot{one->first, memory_->note(0, one->first)};
    }
  }
  return std::nullopt;
}

void Snapshots::load(const FoundSnapshot& found) {
  const std::map<std::string_view, std::vector<Stored>> stored = stored_chunks();
  load_state(executor_, step_, plan_->layout, [&](std::span<const WantedBox> wanted) {
    for (const WantedBox& box : wanted) read(found, box, stored.at(box.tensor));
  });
  const std::byte* const mine = memory_->find(static_cast<size_t>(control_.rank()), found.name);
  newest_ = mine == memory_->copy(0) ? 0 : 1;
}

std::map<std::string_view, std::vector<Snapshots::Stored>> Snapshots::stored_chunks() const {
  std::map<std::string_view, std::vector<Stored>> stored;
  for (size_t rank = 0; rank < layouts_.size(); ++rank) {
    const std::vector<HeldBox>& writes = plan_->save.writes[rank];
    for (size_t i = 0; i < writes.size(); ++i) {
      stored[plan_->save.tensors[writes[i].tensor].name].push_back(
          {rank, &layouts_[rank].chunks[i]});
    }
  }
  return stored;
}

void Snapshots::read(const FoundSnapshot& found, const WantedBox& wanted,
                     const std::vector<Stored>& stored) const {
  for (const Stored& one : stored) {
    const std::byte* const copy = memory_->find(one.rank, found.name);
    TESSERA_CHECK(copy != nullptr, "rank {} has no snapshot of step {}", one.rank, found.name.step);
    copy_common(wanted, one.chunk->place, copy + one.chunk->at);
  }
}

// No rank may give up its older copy before all have sealed the newer one: else a rank that is lost
// just then leaves nothing that all have.
void Snapshots::settle() {
  if (!sealing_.valid()) return;
  sealing_.get();
  control_.barrier();
}

size_t Snapshots::take(int64_t step, const std::string& note, std::optional<size_t> busy) {
  settle();
  const size_t place = 1 - busy.value_or(newest_);
  memory_->open(place);
  staging_->fill(executor_, place, [&] { (void)failpoint_("snapshot.copy", step); });
  newest_ = place;
  ++taken_;
  sealing_ = std::async(std::launch::async, [this, place, step, note] {
    const bool flips = failpoint_("snapshot.seal", step);
    memory_->seal(place, {step, generation_}, note);
    if (flips) *memory_->copy(place) ^= std::byte{4};
  });
  return place;
}

}  // namespace tessera
