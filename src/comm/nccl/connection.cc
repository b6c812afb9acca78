#include "comm/nccl/connection.h"

#include <future>
#include <thread>
#include <utility>

namespace tessera::nccl {

Connection::Connection(std::shared_ptr<Gpu> gpu, std::chrono::milliseconds patience)
    : gpu_(std::move(gpu)), patience_(patience) {}

Connection::~Connection() {
  if (handle_ == nullptr) return;
  end(finalized() ? gpu_->library->ncclCommDestroy : gpu_->library->ncclCommAbort);
}

void Connection::begin(const ncclUniqueId& id, int size, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  handle_ = std::make_shared<ncclComm_t>(nullptr);
  gpu_->check(gpu_->library->ncclCommInitRankConfig(handle_.get(), size, id, rank, &config),
              "connecting the ranks");
}

bool Connection::settled() const {
  ncclResult_t state = ncclSuccess;
  gpu_->check(gpu_->library->ncclCommGetAsyncError(handle(), &state), "asking NCCL for its state");
  gpu_->check(state, "NCCL failed");
  return state == ncclSuccess;
}

void Connection::abort() noexcept {
  if (handle_ != nullptr) end(gpu_->library->ncclCommAbort);
}

bool Connection::finalized() const {
  try {
    if (!settled()) return false;
    gpu_->check(gpu_->library->ncclCommFinalize(handle()), "ending NCCL");
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    while (!settled()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  } catch (const Error&) {
    return false;  // then it is aborted
  }
}

// Both ways to end can wait for peers, or for the driver: they get a thread of their own, which is
// left behind when it takes too long.
void Connection::end(ncclResult_t (*how)(ncclComm_t)) noexcept {
  const std::shared_ptr<ncclComm_t> handle = std::exchange(handle_, nullptr);
  if (*handle == nullptr) return;  // NCCL refused to begin
  try {
    std::promise<void> ended;
    const std::future<void> end = ended.get_future();
    std::thread([gpu = gpu_, how, handle, promise = std::move(ended)]() mutable {
      (void)gpu->library->cudaSetDevice(gpu->device);
      (void)how(*handle);
      promise.set_value();
    }).detach();
    if (end.wait_for(patience_) == std::future_status::ready) return;
  } catch (const std::exception&) {
    // No thread to be had.
  }
  gpu_->stuck = true;
}

}  // namespace tessera::nccl
