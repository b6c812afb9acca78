// Test support: a network inside this process. Messages lie in queues, for a random time where
// asked; sends complete at once or, as large ones do over MPI, only when they have been received.
// A rank of it can be cut off.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/message/transport.h"
#include "comm/testing/count_allocations.h"

namespace tessera::testing {

struct QueueNetworkOptions {
  int ranks = 1;
  bool rendezvous = false;               // sends complete when received
  std::chrono::microseconds longest{0};  // a message takes a random time up to this
  uint32_t seed = 1;
  int ranks_per_node = 1;
};

class QueueNetwork {
 public:
  explicit QueueNetwork(QueueNetworkOptions options) : options_(options), random_(options.seed) {
    ends_.resize(static_cast<size_t>(options.ranks));
  }

  // Must not outlive the network.
  std::unique_ptr<Transport> transport(int rank) { return std::make_unique<End>(*this, rank); }

  // From now on, nothing from or to that rank arrives, aborts included.
  void cut_off(int rank) {
    const std::lock_guard lock(mutex_);
    ends_[static_cast<size_t>(rank)].cut_off = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Stream = std::tuple<int, int, uint32_t>;  // from, to, stream

  struct Control {
    int from;
    Clock::time_point arrives;
    std::vector<std::byte> bytes;
  };
  struct RankEnd {
    std::deque<Control> control;
    std::string abort_reason;  // told by another rank
    bool cut_off = false;
  };
  struct Data {
    const void* source = nullptr;  // rendezvous
    std::vector<std::byte> copied;
    int64_t size_bytes = 0;
    Clock::time_point arrives;
    bool done = false;
    bool cancelled = false;
  };
  struct Receive {
    void* target = nullptr;
    int64_t size_bytes = 0;
    bool done = false;
    bool cancelled = false;
  };
  struct Queue {
    std::deque<std::shared_ptr<Data>> sent;
    std::deque<std::shared_ptr<Receive>> posted;
  };

  Clock::time_point arrival() {
    std::uniform_int_distribution<int64_t> us(0, options_.longest.count());
    return Clock::now() + std::chrono::microseconds(us(random_));
  }

  // Streams keep their order: the first message that has not arrived holds up the rest.
  void match(const Stream& stream) {
    Queue& queue = queues_[stream];
    const Clock::time_point now = Clock::now();
    while (!queue.sent.empty() && !queue.posted.empty()) {
      Data& data = *queue.sent.front();
      Receive& receive = *queue.posted.front();
      if (data.cancelled || receive.cancelled || data.arrives > now) return;
      require(data.size_bytes == receive.size_bytes, "{} bytes sent, {} received", data.size_bytes,
              receive.size_bytes);
      const void* source = data.source != nullptr ? data.source : data.copied.data();
      if (data.size_bytes > 0)
        std::memcpy(receive.target, source, static_cast<size_t>(data.size_bytes));
      data.done = receive.done = true;
      queue.sent.pop_front();
      queue.posted.pop_front();
    }
  }

  class End final : public Transport {
   public:
    End(QueueNetwork& network, int rank) : network_(network), rank_(rank) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return network_.options_.ranks; }
    [[nodiscard]] int node_of(int rank) const override {
      return rank / network_.options_.ranks_per_node;
    }
    [[nodiscard]] std::string describe_peer(int rank) const override {
      return fmt::format("rank {} (thread)", rank);
    }

    void send_control(int peer, std::span<const std::byte> message) override {
      const UncountedAllocations uncounted;
      const std::lock_guard lock(network_.mutex_);
      RankEnd& to = network_.ends_[static_cast<size_t>(peer)];
      if (to.cut_off || cut_off()) return;
      Clock::time_point arrives = network_.arrival();
      for (const Control& before : to.control) {  // in the order sent
        if (before.from == rank_) arrives = std::max(arrives, before.arrives);
      }
      to.control.push_back({rank_, arrives, {message.begin(), message.end()}});
    }

    ControlMessage poll_control() override {
      const UncountedAllocations uncounted;
      const std::lock_guard lock(network_.mutex_);
      std::deque<Control>& queue = network_.ends_[static_cast<size_t>(rank_)].control;
      const Clock::time_point now = Clock::now();
      for (auto message = queue.begin(); message != queue.end(); ++message) {
        if (message->arrives > now) continue;
        last_control_ = std::move(message->bytes);
        const int from = message->from;
        queue.erase(message);
        return {from, last_control_};
      }
      return {};
    }

    Request post_send(int peer, uint32_t stream, const void* data, int64_t size_bytes) override {
      const UncountedAllocations uncounted;
      const std::lock_guard lock(network_.mutex_);
      auto message = std::make_shared<Data>();
      message->size_bytes = size_bytes;
      message->arrives = network_.arrival();
      if (network_.options_.rendezvous) {
        message->source = data;
      } else {
        const auto* bytes = static_cast<const std::byte*>(data);
        if (size_bytes > 0) message->copied.assign(bytes, bytes + size_bytes);
        message->done = true;
      }
      if (!cut_off() && !network_.ends_[static_cast<size_t>(peer)].cut_off) {
        network_.queues_[{rank_, peer, stream}].sent.push_back(message);
      }
      requests_[++last_request_] = {{rank_, peer, stream}, message, nullptr};
      return {last_request_};
    }

    Request post_receive(int peer, uint32_t stream, void* data, int64_t size_bytes) override {
      const UncountedAllocations uncounted;
      const std::lock_guard lock(network_.mutex_);
      auto receive = std::make_shared<Receive>();
      receive->target = data;
      receive->size_bytes = size_bytes;
      network_.queues_[{peer, rank_, stream}].posted.push_back(receive);
      requests_[++last_request_] = {{peer, rank_, stream}, nullptr, receive};
      return {last_request_};
    }

    bool test(Request request) override {
      const UncountedAllocations uncounted;
      const std::lock_guard lock(network_.mutex_);
      const auto found = requests_.find(request.id);
      TESSERA_CHECK(found != requests_.end(), "request {} is not under way", request.id);
      network_.match(found->second.stream);
      const Pending& pending = found->second;
      if (!(pending.sent ? pending.sent->done : pending.received->done)) return false;
      requests_.erase(found);
      return true;
    }

    void cancel(Request request) noexcept override {
      const std::lock_guard lock(network_.mutex_);
      const auto found = requests_.find(request.id);
      if (found == requests_.end()) return;
      if (found->second.sent) found->second.sent->cancelled = true;
      if (found->second.received) found->second.received->cancelled = true;
      requests_.erase(found);
    }

    void progress() override {
      const UncountedAllocations uncounted;
      const std::lock_guard lock(network_.mutex_);
      const std::string& told = network_.ends_[static_cast<size_t>(rank_)].abort_reason;
      if (!told.empty()) raise(told);
    }

    void abort(const std::string& reason) override {
      const std::lock_guard lock(network_.mutex_);
      if (!raise(reason) || cut_off()) return;
      for (RankEnd& end : network_.ends_) {
        if (end.abort_reason.empty() && !end.cut_off) end.abort_reason = reason;
      }
    }
    [[nodiscard]] const AbortFlag& abort_flag() const override { return flag_; }
    [[nodiscard]] std::string abort_reason() const override {
      const std::lock_guard lock(network_.mutex_);
      return reason_;
    }

   private:
    struct Pending {
      Stream stream;
      std::shared_ptr<Data> sent;
      std::shared_ptr<Receive> received;
    };

    [[nodiscard]] bool cut_off() const {
      return network_.ends_[static_cast<size_t>(rank_)].cut_off;
    }
    bool raise(const std::string& reason) {
      if (flag_.raised()) return false;
      reason_ = reason;
      flag_.raise();
      return true;
    }

    QueueNetwork& network_;
    int rank_;
    std::vector<std::byte> last_control_;
    std::map<int64_t, Pending> requests_;
    int64_t last_request_ = 0;
    std::string reason_;
    AbortFlag flag_;
  };

  QueueNetworkOptions options_;
  std::mutex mutex_;
  std::mt19937 random_;
  std::vector<RankEnd> ends_;
  std::map<Stream, Queue> queues_;
};

}  // namespace tessera::testing
