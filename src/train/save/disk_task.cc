#include "train/save/disk_task.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "checkpoint/store/watched_files.h"
#include "train/session_clock.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kLastPatience{5};

}  // namespace

struct DiskTask::State {
  std::shared_ptr<FileOps> files;
  Action action;
  std::atomic<bool> stop = false;
  std::atomic<int64_t> changes = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Result result;
  std::exception_ptr thrown;

  void run() {
    const HostTimer timer;
    WatchedFiles watched(*files, [this](const char* /*kind*/, int64_t /*bytes*/) {
      require(!stop.load(), "the run ended while it was written");
      ++changes;
    });
    Result mine;
    std::exception_ptr unknown;
    try {
      mine.text = action(watched);
    } catch (const Error& error) {
      mine.failure = error.what();
    } catch (...) {
      unknown = std::current_exception();
    }
    mine.seconds = timer.seconds();
    const std::lock_guard lock(mutex);
    result = std::move(mine);
    thrown = unknown;
    done = true;
    changed.notify_all();
  }
};

DiskTask::DiskTask(std::shared_ptr<FileOps> files) : files_(std::move(files)) {}

DiskTask::~DiskTask() {
  if (!state_) return;
  state_->stop = true;
  if (wait_for(kLastPatience)) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void DiskTask::start(Action action) {
  TESSERA_CHECK(!state_, "a disk has work already");
  state_ = std::make_shared<State>();
  state_->files = files_;
  state_->action = std::move(action);
  thread_ = std::thread([state = state_] { state->run(); });
}

bool DiskTask::busy() const { return state_ && !wait_for(std::chrono::milliseconds(0)); }

bool DiskTask::wait_for(std::chrono::milliseconds time) const {
  if (!state_) return true;
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, time, [this] { return state_->done; });
}

int64_t DiskTask::changes() const { return state_ ? state_->changes.load() : 0; }

DiskTask::Result DiskTask::take() {
  TESSERA_CHECK(state_ && !busy(), "the disk has not finished");
  thread_.join();
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  if (state->thrown) std::rethrow_exception(state->thrown);
  return state->result;
}

}  // namespace tessera
