#include "comm/local/local_world.h"

#include <sched.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "comm/shared/domain.h"
#include "comm/shared/endpoint.h"
#include "comm/shared/layout.h"

namespace tessera {
namespace {

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Address space; pages come as they are touched.
class ControlMemory {
 public:
  explicit ControlMemory(int ranks)
      : size_bytes_(static_cast<size_t>(shared::control_bytes(ranks))) {
    void* memory = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(memory != MAP_FAILED, "no address space ({} bytes) for a world of {} ranks: {}",
            size_bytes_, ranks, std::strerror(errno));
    block_ = static_cast<shared::WorldBlock*>(memory);
    block_->magic = shared::kMagic;
    block_->version = shared::kVersion;
    block_->ranks = static_cast<uint32_t>(ranks);
  }
  ~ControlMemory() { munmap(block_, size_bytes_); }
  ControlMemory(const ControlMemory&) = delete;
  ControlMemory& operator=(const ControlMemory&) = delete;

  [[nodiscard]] shared::WorldBlock* block() const { return block_; }

 private:
  size_t size_bytes_;
  shared::WorldBlock* block_ = nullptr;
};

LocalWorldOptions checked(LocalWorldOptions options) {
  require(options.size > 0 && options.size <= shared::kMaxRanks,
          "a world of {} ranks: size must be 1 to {}", options.size, shared::kMaxRanks);
  require(options.timeout.count() > 0, "a world with a timeout of {} ms: it must be positive",
          options.timeout.count());
  if (options.gpu >= 0) options.device = make_gpu_device(options.gpu);
  return options;
}

shared::Domain make_domain(const LocalWorldOptions& options, shared::WorldBlock* block) {
  shared::Domain::Options domain;
  domain.block = block;
  domain.device = options.device.get();
  domain.patience.timeout = options.timeout;
  domain.patience.slow_after = options.slow_after;
  domain.crowded = options.size * options.busy_threads > usable_cores();
  domain.on_warning = options.on_warning;
  return shared::Domain(std::move(domain));
}

}  // namespace

struct LocalWorld::State {
  explicit State(LocalWorldOptions world_options)
      : options(checked(std::move(world_options))),
        memory(options.size),
        domain(make_domain(options, memory.block())) {
    for (int rank = 0; rank < options.size; ++rank) {
      shared::Endpoint::Options endpoint;
      endpoint.domain = &domain;
      endpoint.rank = rank;
      endpoint.backend = "local";
      endpoint.allocate = [device = options.device](const std::string& name, int64_t size_bytes) {
        return device != nullptr ? device->allocate(name, size_bytes) : HostArena(name, size_bytes);
      };
      endpoints.push_back(std::make_unique<shared::Endpoint>(std::move(endpoint)));
    }
  }

  const LocalWorldOptions options;
  ControlMemory memory;
  shared::Domain domain;
  std::vector<std::unique_ptr<shared::Endpoint>> endpoints;
};

LocalWorld::LocalWorld(LocalWorldOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

LocalWorld::~LocalWorld() = default;

int LocalWorld::size() const { return state_->options.size; }

CommWorld& LocalWorld::endpoint(int rank) {
  require(rank >= 0 && rank < size(), "rank {} of a world of {}", rank, size());
  return *state_->endpoints[static_cast<size_t>(rank)];
}

std::unique_ptr<Communicator> LocalWorld::join(const std::string& name,
                                               std::span<const int> members, int world_rank) {
  return endpoint(world_rank).join(name, members);
}

void LocalWorld::abort(const std::string& reason) {
  shared::raise_abort(*state_->memory.block(), reason);
}
bool LocalWorld::aborted() const { return abort_flag().raised(); }
std::string LocalWorld::abort_reason() const {
  return shared::abort_reason(*state_->memory.block());
}
const AbortFlag& LocalWorld::abort_flag() const { return state_->memory.block()->abort_flag; }

}  // namespace tessera
