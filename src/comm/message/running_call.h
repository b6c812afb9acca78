// One call of one rank on its way through its schedule. It sends its headers at once, and with them
// the data that depends on nobody; it touches its buffers only when all the headers it expects are
// there and agree. Needs the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/message/call_recipe.h"
#include "comm/message/message_group.h"

namespace tessera::message {

class RunningCall {
 public:
  // `group` must outlive it.
  explicit RunningCall(MessageGroup& group);
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  // An object serves one call after the other; nothing is allocated once it has seen a call as
  // large.
  void begin(const CollectiveCall& call, const CallHeader& header,
             std::shared_ptr<const CallRecipe> plan);
  [[nodiscard]] const CallHeader& header() const { return header_; }

  // Fails the group when it is not the same call.
  void take_header(int rank, const CallHeader& theirs);

  // Does what can be done without waiting.
  void advance();
  [[nodiscard]] bool done() const { return done_; }
  // After an abort: nothing touches the buffers any more.
  void cancel() noexcept;

  // Ranks that it waits for: those not heard of, or else those with data on its way.
  [[nodiscard]] std::vector<int> awaited() const;
  [[nodiscard]] bool hears_from_all() const { return num_unheard_ == 0; }
  [[nodiscard]] bool hears_from(int rank) const { return !unheard_[static_cast<size_t>(rank)]; }

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  struct Pending {
    Transport::Request request;
    int peer = 0;
  };

  void send_headers();
  void start_round();
  void post(const CollectiveStep& step);
  void compute(const CollectiveStep& step);
  [[nodiscard]] bool messages_done();
  [[nodiscard]] std::byte* address(StepPlace place);
  [[nodiscard]] int64_t expected_count(int rank) const;

  MessageGroup& group_;
  CollectiveCall call_;
  CallHeader header_;
  std::shared_ptr<const CallRecipe> plan_;
  int64_t element_bytes_ = 1;

  // By rank.
  std::vector<bool> unheard_;
  std::vector<uint32_t> streams_to_;
  std::vector<uint32_t> streams_from_;
  std::vector<int64_t> arrived_at_us_;
  int num_unheard_ = 0;

  bool first_round_ = true;  // whose sends are on their way already
  size_t next_step_ = 0;
  std::vector<Pending> pending_;  // of this round
  bool done_ = true;

  std::vector<CacheLine> scratch_;
  std::vector<const void*> sources_;
};

}  // namespace tessera::message
