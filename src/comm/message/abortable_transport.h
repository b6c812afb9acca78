// What all transports do with an abort: the first reason stays, and is told to the other ranks
// once. How it travels is theirs.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "comm/message/transport.h"

namespace tessera {

class AbortableTransport : public Transport {
 public:
  void abort(const std::string& reason) final;
  [[nodiscard]] const AbortFlag& abort_flag() const final { return abort_flag_; }
  [[nodiscard]] std::string abort_reason() const final;

 protected:
  // `on_abort` is told the first reason, whoever it came from; null: nobody is.
  explicit AbortableTransport(std::function<void(const std::string&)> on_abort = {});

  // False when another reason was first. Needs no lock.
  bool raise(const std::string& reason);
  // Starts telling abort_reason() to every rank. With mutex_ held.
  virtual void send_reason() = 0;
  // With mutex_ held.
  [[noreturn]] void fail(const std::string& reason);

  std::mutex mutex_;  // guards what the transport sends and receives with

 private:
  const std::function<void(const std::string&)> on_abort_;
  AbortFlag abort_flag_;
  mutable std::mutex reason_mutex_;
  std::string reason_;
};

}  // namespace tessera
