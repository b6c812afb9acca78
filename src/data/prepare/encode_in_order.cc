#include "data/prepare/encode_in_order.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tessera {
namespace {

// Bytes of text; its tokens may take four times as much, where each byte is one.
constexpr int64_t kMostBytesUnderWay = int64_t{24} << 20;

class UnitQueue {
 public:
  // False: the work was ended.
  bool put(WorkUnit unit) {
    std::unique_lock lock(mutex_);
    const auto bytes = std::ssize(unit.text);
    has_room_.wait(lock, [&] {
      return ended_ || under_way_ == 0 || under_way_ + bytes <= kMostBytesUnderWay;
    });
    if (ended_) return false;
    under_way_ += bytes;
    to_encode_.push_back(std::move(unit));
    has_work_.notify_one();
    return true;
  }
  // So many units there are.
  void close(int64_t count) {
    const std::scoped_lock lock(mutex_);
    count_ = count;
    has_work_.notify_all();
    has_next_.notify_one();
  }
  std::optional<WorkUnit> next_to_encode() {
    std::unique_lock lock(mutex_);
    has_work_.wait(lock, [&] { return ended_ || !to_encode_.empty() || count_.has_value(); });
    if (ended_ || to_encode_.empty()) return std::nullopt;
    WorkUnit unit = std::move(to_encode_.front());
    to_encode_.pop_front();
    return unit;
  }
  void put_encoded(EncodedUnit unit) {
    const std::scoped_lock lock(mutex_);
    const int64_t number = unit.number;
    encoded_.emplace(number, std::move(unit));
    if (number == next_) has_next_.notify_one();
  }
  // The unit after the last; none: that was the last.
  std::optional<EncodedUnit> next_encoded() {
    std::unique_lock lock(mutex_);
    has_next_.wait(lock, [&] { return encoded_.contains(next_) || count_ == next_; });
    if (count_ == next_) return std::nullopt;
    auto node = encoded_.extract(next_++);
    return std::move(node.mapped());
  }
  void taken(int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    under_way_ -= bytes;
    has_room_.notify_one();
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    has_work_.notify_all();
    has_room_.notify_all();
  }

 private:
  std::mutex mutex_;
  // One for each who waits, so that many threads are not woken for nothing.
  std::condition_variable has_room_;  // the reader
  std::condition_variable has_work_;  // those who encode
  std::condition_variable has_next_;  // who takes the units in order
  std::deque<WorkUnit> to_encode_;
  std::map<int64_t, EncodedUnit> encoded_;
  std::optional<int64_t> count_;
  int64_t next_ = 0;
  int64_t under_way_ = 0;  // bytes of text
  bool ended_ = false;
};

void read_units(UnitReader& reader, UnitQueue& queue) {
  int64_t count = 0;
  try {
    while (std::optional<WorkUnit> unit = reader.next()) {
      if (!queue.put(std::move(*unit))) return;
      ++count;
    }
  } catch (...) {
    EncodedUnit failed;
    failed.number = count++;
    failed.failure = std::current_exception();
    queue.put_encoded(std::move(failed));
  }
  queue.close(count);
}

void encode_units(const Tokenizer& tokenizer, const EncodeOptions& options, UnitQueue& queue) {
  std::optional<TokenEncoder> encoder;
  while (std::optional<WorkUnit> unit = queue.next_to_encode()) {
    EncodedUnit encoded;
    try {
      if (!encoder.has_value()) encoder.emplace(tokenizer);
      encoded = encode_unit(*unit, options, *encoder);
    } catch (...) {
      encoded = {};
      encoded.number = unit->number;
      encoded.failure = std::current_exception();
    }
    queue.put_encoded(std::move(encoded));
  }
}

// Ends the threads however the work ends.
class Threads {
 public:
  explicit Threads(UnitQueue& queue) : queue_(queue) {}
  ~Threads() {
    queue_.end();
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  void start(std::function<void()> work) { threads_.emplace_back(std::move(work)); }

 private:
  UnitQueue& queue_;
  std::vector<std::thread> threads_;
};

}  // namespace

void encode_in_order(UnitReader& reader, const Tokenizer& tokenizer, const EncodeOptions& options,
                     int64_t threads, const std::function<bool(EncodedUnit)>& take) {
  UnitQueue queue;
  Threads running(queue);
  running.start([&] { read_units(reader, queue); });
  for (int64_t i = 0; i < threads; ++i) {
    running.start([&] { encode_units(tokenizer, options, queue); });
  }
  while (std::optional<EncodedUnit> unit = queue.next_encoded()) {
    const int64_t bytes = unit->text_bytes;
    if (!take(std::move(*unit))) return;
    queue.taken(bytes);
  }
}

}  // namespace tessera
