// Messages over MPI: MPI_Isend, MPI_Irecv and one MPI_Testsome per poll, so that no call waits for
// a peer.
//
// An abort travels as a message of its own to every rank, for which every rank keeps a receive
// posted. MPI cannot take back a message that is half way, so once the reason is out and the first
// buffer is given back, MPI is never called again by this process: nothing can touch the buffer.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/message/abortable_transport.h"
#include "comm/mpi/mpi_requests.h"
#include "comm/mpi/mpi_session.h"

namespace tessera {

struct MpiTransportOptions {
  std::chrono::milliseconds start_timeout{60'000};          // to meet the other ranks at the start
  std::chrono::milliseconds timeout{60'000};                // and at the end
  std::function<void(const std::string&)> on_warning = {};  // null: dropped
  int64_t part_bytes = int64_t{1} << 30;  // MPI counts in int, so a large message travels in parts
};

class MpiTransport final : public AbortableTransport {
 public:
  // Starts MPI and meets the other ranks. Throws as MpiSession does.
  explicit MpiTransport(MpiTransportOptions options);
  // Ends MPI with the other ranks, unless there was an abort.
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  [[nodiscard]] int rank() const override { return session_.rank(); }
  [[nodiscard]] int size() const override { return static_cast<int>(session_.peers().size()); }
  [[nodiscard]] int node_of(int rank) const override;
  [[nodiscard]] std::string describe_peer(int rank) const override;

  void send_control(int peer, std::span<const std::byte> message) override;
  ControlMessage poll_control() override;
  Request post_send(int peer, uint32_t stream, const void* data, int64_t size_bytes) override;
  Request post_receive(int peer, uint32_t stream, void* data, int64_t size_bytes) override;
  bool test(Request request) override;
  void cancel(Request request) noexcept override;
  void progress() override;

 private:
  static constexpr int kControlReceives = 16;  // that many may arrive between two polls unbuffered
  static constexpr size_t kMaxReasonBytes = 4096;

  struct ControlIn {
    std::array<std::byte, kMaxControlBytes> bytes;
    int from = -1;  // -1: not yet
    int size_bytes = 0;
  };
  using ControlOut = std::array<std::byte, kMaxControlBytes>;

  struct Data {
    int peer = 0;
    uint32_t stream = 0;
    int64_t size_bytes = 0;
    int64_t received_bytes = 0;
    int parts_left = 0;
  };

  // With mutex_ held, as all that follow.
  void send_reason() override;
  void expect(int code, const char* call);
  void fall_silent() noexcept;

  void require_open() const;
  void post_control_receive(int index);
  void post_abort_receive();
  [[nodiscard]] int num_parts(int64_t size_bytes) const;
  [[nodiscard]] int bytes_of_part(int64_t size_bytes, int part) const;
  int new_data(int peer, uint32_t stream, int64_t size_bytes);
  void poll();
  void handle(const MpiEnded& ended);
  void finish_part(const MpiEnded& ended);

  void end_in_peace();
  [[nodiscard]] bool everyone_has_ended() const;
  [[nodiscard]] std::string absent_at_the_end() const;

  void warn(const std::string& text) const;

  const MpiTransportOptions options_;
  MpiSession session_;

  // Guarded by mutex_, as MPI is.
  MpiRequests requests_;
  std::array<ControlIn, kControlReceives> control_in_;
  int next_control_ = 0;       // the slot that the next message comes into: a ring, in posted order
  bool control_lent_ = false;  // the caller still looks at the slot before it
  std::deque<ControlOut> control_out_;  // a deque: MPI holds addresses
  std::vector<int> free_control_out_;
  std::vector<Data> data_;
  std::vector<int> free_data_;
  std::array<char, kMaxReasonBytes> incoming_reason_ = {};
  std::string outgoing_reason_;
  std::vector<bool> ended_;  // ranks that have come to the end
  bool silent_ = false;      // MPI is not called any more
};

}  // namespace tessera
