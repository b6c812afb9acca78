#include "http/later_response.h"

#include <utility>

#include "http/message.h"

namespace tessera::http {

LaterResponse::LaterResponse() = default;
LaterResponse::~LaterResponse() = default;

void LaterResponse::give(Response response) {
  const std::lock_guard lock(mutex_);
  if (done_ || known_ != nullptr) return;
  if (!take_) {
    known_ = std::make_unique<Response>(std::move(response));
    return;
  }
  done_ = true;
  // Under the lock: whoever takes it cannot be gone before take_with() has said so.
  std::exchange(take_, {})(std::move(response));
}

void LaterResponse::take_with(std::function<void(Response)> take) {
  {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    if (take && known_ == nullptr) {
      take_ = std::move(take);
      return;
    }
    done_ = true;
    take_ = {};
    const std::unique_ptr<Response> known = std::move(known_);
    if (take) return take(std::move(*known));
    if (known != nullptr) return;
  }
  on_gone();
}

}  // namespace tessera::http
