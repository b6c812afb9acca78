#include "data/prepare/encode_in_order.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

// A long line is there packed, and twice as its text while that is found (a text that grows has
// its old memory meanwhile).
constexpr size_t kLineCopies = 6;
// Tokens of two bytes take less than their text, but for odd ones.
constexpr size_t kTokensPerText = 2;

class UnitQueue {
 public:
  UnitQueue(const OrderLimits& limits, size_t unit_bytes)
      : most_extra_(limits.extra_bytes),
        unit_bytes_(unit_bytes),
        // One with each who works, and one more that waits for each who encodes.
        encoded_(static_cast<size_t>(2 * limits.threads + 3), nullptr) {
    for (size_t i = 0; i < encoded_.size(); ++i) {
      all_.push_back(std::make_unique<UnitUnderWay>());
      free_.push_back(all_.back().get());
    }
  }

  // Null: the work was ended.
  UnitUnderWay* next_free() {
    std::unique_lock lock(mutex_);
    has_free_.wait(lock, [&] { return ended_ || !free_.empty(); });
    if (ended_) return nullptr;
    UnitUnderWay* unit = free_.back();
    free_.pop_back();
    return unit;
  }
  void put(UnitUnderWay* unit) {
    if (unit->work.text.size() > unit_bytes_) {
      take_extra(*unit, kLineCopies * unit->work.text.size());
    }
    const std::scoped_lock lock(mutex_);
    to_encode_.push_back(unit);
    has_work_.notify_one();
  }
  // So many units there are.
  void close(int64_t count) {
    const std::scoped_lock lock(mutex_);
    count_ = count;
    has_work_.notify_all();
    has_next_.notify_one();
  }
  // Null: there are no more.
  UnitUnderWay* next_to_encode() {
    std::unique_lock lock(mutex_);
    has_work_.wait(lock, [&] { return ended_ || !to_encode_.empty() || count_.has_value(); });
    if (ended_ || to_encode_.empty()) return nullptr;
    UnitUnderWay* unit = to_encode_.front();
    to_encode_.pop_front();
    return unit;
  }
  // Before the tokens of a unit take so many bytes.
  void take_room_for(UnitUnderWay& unit, size_t token_bytes) {
    const size_t usual = kTokensPerText * unit_bytes_;
    if (token_bytes <= usual) return;
    const size_t of_line = unit.work.text.size() > unit_bytes_ ? unit.work.text.size() : 0;
    take_extra(unit, kLineCopies * of_line + token_bytes - usual);
  }
  void put_encoded(UnitUnderWay* unit) {
    const std::scoped_lock lock(mutex_);
    encoded_[place_of(unit->work.number)] = unit;
    if (unit->work.number == next_) has_next_.notify_one();
  }
  // The unit after the last; null: that was the last.
  UnitUnderWay* next_encoded() {
    std::unique_lock lock(mutex_);
    has_next_.wait(lock, [&] { return encoded_[place_of(next_)] != nullptr || count_ == next_; });
    if (count_ == next_) return nullptr;
    UnitUnderWay* unit = std::exchange(encoded_[place_of(next_)], nullptr);
    ++next_;
    if (num_waiting_ > 0) has_extra_.notify_all();
    return unit;
  }
  void give_back(UnitUnderWay* unit) {
    // More than every unit has is freed here, where it is counted.
    unit->work.text.reset(2 * unit_bytes_);
    for (EncodedTokens& set : unit->encoded.sets) set.tokens.reset(unit_bytes_);
    const std::scoped_lock lock(mutex_);
    extra_ -= std::exchange(unit->extra_bytes, 0);
    if (num_waiting_ > 0) has_extra_.notify_all();
    free_.push_back(unit);
    has_free_.notify_one();
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    has_work_.notify_all();
    has_free_.notify_all();
    has_extra_.notify_all();
  }

 private:
  // At most so many are under way, so each has a place of its own.
  [[nodiscard]] size_t place_of(int64_t number) const {
    return static_cast<size_t>(number) % encoded_.size();
  }

  // Units are begun in their order, so the one that is next is never behind one that waits here.
  void take_extra(UnitUnderWay& unit, size_t bytes) {
    if (bytes <= unit.extra_bytes) return;
    std::unique_lock lock(mutex_);
    const size_t more = bytes - unit.extra_bytes;
    ++num_waiting_;
    has_extra_.wait(
        lock, [&] { return ended_ || unit.work.number == next_ || extra_ + more <= most_extra_; });
    --num_waiting_;
    extra_ += more;
    unit.extra_bytes = bytes;
  }

  const size_t most_extra_, unit_bytes_;
  std::mutex mutex_;
  // One for each kind of those who wait, so that many threads are not woken for nothing.
  std::condition_variable has_free_;   // the reader
  std::condition_variable has_work_;   // those who encode
  std::condition_variable has_extra_;  // the reader and those who encode
  std::condition_variable has_next_;   // who takes the units in order
  std::vector<std::unique_ptr<UnitUnderWay>> all_;
  std::vector<UnitUnderWay*> free_;
  std::deque<UnitUnderWay*> to_encode_;
  std::vector<UnitUnderWay*> encoded_;  // by number; null: not yet
  std::optional<int64_t> count_;
  int64_t next_ = 0;
  size_t extra_ = 0;
  int64_t num_waiting_ = 0;
  bool ended_ = false;
};

void read_units(UnitReader& reader, UnitQueue& queue) {
  int64_t count = 0;
  while (UnitUnderWay* unit = queue.next_free()) {
    try {
      if (!reader.next(unit->work)) break;
      queue.put(unit);
    } catch (...) {
      unit->work.number = count++;
      unit->encoded.failure = std::current_exception();
      queue.put_encoded(unit);
      break;
    }
    ++count;
  }
  queue.close(count);
}

void encode_units(const Tokenizer& tokenizer, const EncodeOptions& options, UnitQueue& queue) {
  std::optional<TokenEncoder> encoder;
  while (UnitUnderWay* unit = queue.next_to_encode()) {
    try {
      if (!encoder.has_value()) encoder.emplace(tokenizer);
      const std::function<void(size_t)> room_for = [&](size_t bytes) {
        queue.take_room_for(*unit, bytes);
      };
      encode_unit(unit->work, options, *encoder, room_for, unit->encoded);
    } catch (...) {
      unit->encoded.failure = std::current_exception();
    }
    queue.put_encoded(unit);
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
                     const OrderLimits& limits,
                     const std::function<bool(const UnitUnderWay&)>& take) {
  UnitQueue queue(limits, options.limits.unit_bytes + options.separator.size());
  Threads running(queue);
  running.start([&] { read_units(reader, queue); });
  for (int64_t i = 0; i < limits.threads; ++i) {
    running.start([&] { encode_units(tokenizer, options, queue); });
  }
  while (UnitUnderWay* unit = queue.next_encoded()) {
    if (!take(*unit)) return;
    queue.give_back(unit);
  }
}

}  // namespace tessera
