#include "comm/local/local_world.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/local/local_communicator.h"
#include "comm/local/local_group.h"

namespace tessera {

struct LocalWorld::State {
  using GroupKey = std::pair<std::string, std::vector<int>>;

  explicit State(LocalWorldOptions world_options) : options(world_options) {}

  const LocalWorldOptions options;
  WorldFailure failure;
  std::mutex mutex;
  std::map<GroupKey, std::shared_ptr<LocalGroup>> groups;  // guarded by mutex
};

LocalWorld::LocalWorld(LocalWorldOptions options) : state_(std::make_unique<State>(options)) {
  require(options.size > 0, "a world of {} ranks: size must be at least 1", options.size);
  require(options.timeout.count() > 0, "a world with a timeout of {} ms: it must be positive",
          options.timeout.count());
}

LocalWorld::~LocalWorld() = default;

int LocalWorld::size() const { return state_->options.size; }

std::unique_ptr<Communicator> LocalWorld::join(const std::string& name,
                                               std::span<const int> members, int world_rank) {
  std::vector<int> ranks(members.begin(), members.end());
  for (size_t i = 0; i < ranks.size(); ++i) {
    require(ranks[i] >= 0 && ranks[i] < size(),
            "group {}: member {} is not in the world of 0 to {}", name, ranks[i], size() - 1);
    require(i == 0 || ranks[i - 1] < ranks[i],
            "group {}: member {} follows {}; members must ascend without repeats", name, ranks[i],
            i == 0 ? 0 : ranks[i - 1]);
  }
  const auto self = std::find(ranks.begin(), ranks.end(), world_rank);
  require(self != ranks.end(), "group {}: rank {} joined but is not among the {} members", name,
          world_rank, ranks.size());
  const int rank = static_cast<int>(self - ranks.begin());

  const std::lock_guard lock(state_->mutex);
  std::shared_ptr<LocalGroup>& group = state_->groups[{name, ranks}];
  if (!group) {
    group = std::make_shared<LocalGroup>(name, ranks, state_->options.timeout, state_->failure);
  }
  group->join(rank);
  return std::make_unique<LocalCommunicator>(group, rank);
}

namespace {

class Endpoint final : public CommWorld {
 public:
  Endpoint(LocalWorld& world, int rank) : world_(world), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return world_.size(); }
  [[nodiscard]] std::string backend() const override { return "local"; }
  std::unique_ptr<Communicator> join(const std::string& name,
                                     std::span<const int> members) override {
    return world_.join(name, members, rank_);
  }
  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return HostArena(name, size_bytes);
  }
  void abort(const std::string& reason) override { world_.abort(reason); }
  [[nodiscard]] const AbortFlag& abort_flag() const override { return world_.abort_flag(); }
  [[nodiscard]] std::string abort_reason() const override { return world_.abort_reason(); }

 private:
  LocalWorld& world_;
  int rank_;
};

}  // namespace

std::unique_ptr<CommWorld> LocalWorld::endpoint(int rank) {
  require(rank >= 0 && rank < size(), "rank {} of a world of {}", rank, size());
  return std::make_unique<Endpoint>(*this, rank);
}

void LocalWorld::abort(const std::string& reason) { state_->failure.raise(reason); }
bool LocalWorld::aborted() const { return state_->failure.flag().raised(); }
std::string LocalWorld::abort_reason() const { return state_->failure.reason(); }
const AbortFlag& LocalWorld::abort_flag() const { return state_->failure.flag(); }

}  // namespace tessera
