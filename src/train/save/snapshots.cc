#include "train/save/snapshots.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "spec/run_file/run_file.h"
#include "train/control.h"
#include "train/save/resume.h"
#include "train/save/snapshot_parts.h"

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

// `from`: what is stored at `place`, from byte `first` on.
void copy_common(const WantedBox& wanted, const Placed& place, const std::byte* from,
                 int64_t first) {
  const std::optional<Box> common = intersection(wanted.place.box, place.box);
  if (!common) return;
  const int64_t element = size_bits(wanted.type) / 8;
  for_each_common_run(wanted.place, place, *common, [&](int64_t to, int64_t at, int64_t count) {
    std::memcpy(wanted.memory + to * element, from + (at * element - first),
                static_cast<size_t>(count * element));
  });
}

// The stretch of a chunk that holds all that is wanted of it. Empty: nothing is.
struct Stretch {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
};
Stretch common_stretch(const WantedBox& wanted, const Placed& place) {
  Stretch stretch;
  const std::optional<Box> common = intersection(wanted.place.box, place.box);
  if (!common) return stretch;
  const int64_t element = size_bits(wanted.type) / 8;
  for_each_common_run(wanted.place, place, *common, [&](int64_t, int64_t at, int64_t count) {
    stretch.first = std::min(stretch.first, at * element);
    stretch.end = std::max(stretch.end, (at + count) * element);
  });
  return stretch;
}

}  // namespace

Snapshots::Snapshots(Kept file, const RunSpec& spec, const StepGraph& step, Executor& executor,
                     Communicator& control, Failpoint failpoint)
    : step_(step),
      executor_(executor),
      control_(control),
      failpoint_(std::move(failpoint)),
      generation_(static_cast<uint64_t>(file.generation)),
      ranks_on_host_(file.ranks_on_host > 0 ? file.ranks_on_host : control.size()),
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
    if (one->second != control_.size()) continue;
    const std::string left = control_.rank() == 0 ? memory_->note(0, one->first) : "";
    return FoundSnapshot{one->first, text_of_rank_zero(control_, left)};
  }
  return std::nullopt;
}

void Snapshots::load(const FoundSnapshot& found) {
  const std::map<std::string_view, std::vector<Stored>> stored = stored_chunks();
  // Ranks have different numbers of buffers, and several hosts exchange once. Their ranks have no
  // GPU (--hosts refuses it): what is wanted is read in place, also later.
  std::vector<WantedBox> later;
  load_state(executor_, step_, plan_->layout, [&](std::span<const WantedBox> wanted) {
    if (on_one_host()) {
      read(found, wanted, stored);
    } else {
      later.insert(later.end(), wanted.begin(), wanted.end());
    }
  });
  if (!on_one_host()) read(found, later, stored);
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

void Snapshots::read(const FoundSnapshot& found, std::span<const WantedBox> wanted,
                     const std::map<std::string_view, std::vector<Stored>>& stored) const {
  std::vector<WantedPart> elsewhere;
  for (const WantedBox& box : wanted) {
    for (const Stored& one : stored.at(box.tensor)) {
      const StagingLayout::Chunk& chunk = *one.chunk;
      if (!is_here(one.rank)) {
        const Stretch part = common_stretch(box, chunk.place);
        if (part.end == 0) continue;
        elsewhere.push_back({.rank = static_cast<int>(one.rank),
                             .first = chunk.at + part.first,
                             .bytes = part.end - part.first,
                             .take = [&box, &chunk, part](const std::byte* data) {
                               copy_common(box, chunk.place, data, part.first);
                             }});
        continue;
      }
      const std::byte* const copy = memory_->find(one.rank, found.name);
      TESSERA_CHECK(copy != nullptr, "rank {} has no snapshot of step {}", one.rank,
                    found.name.step);
      copy_common(box, chunk.place, copy + chunk.at, 0);
    }
  }
  if (on_one_host()) return;
  const auto mine = static_cast<size_t>(control_.rank());
  exchange_parts(control_, elsewhere,
                 {memory_->find(mine, found.name), static_cast<size_t>(layouts_[mine].copy_bytes)});
}

bool Snapshots::on_one_host() const { return ranks_on_host_ == control_.size(); }

bool Snapshots::is_here(size_t rank) const {
  const auto here = static_cast<size_t>(ranks_on_host_);
  return rank / here == static_cast<size_t>(control_.rank()) / here;
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
