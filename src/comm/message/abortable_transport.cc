#include "comm/message/abortable_transport.h"

#include <utility>

namespace tessera {

AbortableTransport::AbortableTransport(std::function<void(const std::string&)> on_abort)
    : on_abort_(std::move(on_abort)) {}

void AbortableTransport::abort(const std::string& reason) {
  if (!raise(reason)) return;
  const std::scoped_lock lock(mutex_);
  send_reason();
}

std::string AbortableTransport::abort_reason() const {
  const std::scoped_lock lock(reason_mutex_);
  return reason_;
}

bool AbortableTransport::raise(const std::string& reason) {
  const std::scoped_lock lock(reason_mutex_);
  if (abort_flag_.raised()) return false;
  reason_ = reason;
  abort_flag_.raise();
  if (on_abort_) on_abort_(reason);
  return true;
}

void AbortableTransport::fail(const std::string& reason) {
  if (raise(reason)) send_reason();
  throw CommError(abort_reason());
}

}  // namespace tessera
