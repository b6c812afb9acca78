#include "comm/shared/endpoint.h"

#include <algorithm>

#include "comm/shared/shared_communicator.h"

namespace tessera::shared {

Endpoint::~Endpoint() {
  if (options_.on_close) options_.on_close();
}

std::unique_ptr<Communicator> Endpoint::join(const std::string& name,
                                             std::span<const int> members) {
  for (size_t i = 1; i < members.size(); ++i) {
    require(members[i - 1] < members[i],
            "group {}: member {} follows {}; members must ascend without repeats", name, members[i],
            members[i - 1]);
  }
  return join_as(name, name, members);
}

std::unique_ptr<Communicator> Endpoint::join_as(const std::string& name, const std::string& key,
                                                std::span<const int> members) {
  return std::make_unique<SharedCommunicator>(*this, name, key, members);
}

void Endpoint::look_for_lost_ranks() {
  if (domain().liveness() == nullptr) return;
  const std::optional<std::string> lost = domain().liveness()->lost();
  if (lost) raise_abort(domain().block(), *lost);
}

void Endpoint::add_active(SharedCommunicator& communicator) {
  const std::scoped_lock lock(mutex_);
  for (const Active& active : active_) {
    if (active.communicator == &communicator) return;
  }
  active_.push_back({&communicator, std::this_thread::get_id()});
  num_active_.store(static_cast<int>(active_.size()), std::memory_order_relaxed);
}

void Endpoint::remove_active(SharedCommunicator& communicator) {
  if (num_active_.load(std::memory_order_relaxed) == 0) return;
  const std::scoped_lock lock(mutex_);
  std::erase_if(active_, [&](const Active& a) { return a.communicator == &communicator; });
  num_active_.store(static_cast<int>(active_.size()), std::memory_order_relaxed);
}

bool Endpoint::advance_others(SharedCommunicator& waiting) {
  if (num_active_.load(std::memory_order_relaxed) == 0) return false;
  std::array<SharedCommunicator*, kMaxGroups> mine;
  size_t num_mine = 0;
  {
    const std::scoped_lock lock(mutex_);
    for (const Active& active : active_) {
      if (active.communicator == &waiting || active.thread != std::this_thread::get_id()) continue;
      if (num_mine < mine.size()) mine[num_mine++] = active.communicator;
    }
  }
  for (size_t i = 0; i < num_mine; ++i) {
    mine[i]->advance(nullptr, nullptr);
    if (mine[i]->idle()) remove_active(*mine[i]);
  }
  return num_mine > 0;
}

}  // namespace tessera::shared
