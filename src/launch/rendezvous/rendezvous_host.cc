#include "launch/rendezvous/rendezvous_host.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"
#include "comm/communicator.h"
#include "launch/poll_set.h"
#include "launch/rank_list.h"
#include "launch/rendezvous/rendezvous_frame.h"
#include "launch/rendezvous/socket.h"
#include "launch/rendezvous/token.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kHelloTime{3'000};  // from connecting to a complete hello
constexpr milliseconds kTableTime{5'000};  // for all to take the table
constexpr milliseconds kRefuseTime{200};   // for a refused one to take the reason
constexpr milliseconds kAcceptPause{50};   // when descriptors are used up
constexpr size_t kMaxHelloBytes = 2 * Rendezvous::kMaxPayloadBytes;
constexpr size_t kMaxStrangers = 64;  // connected, but no hello yet

struct Visitor {
  UniqueFd fd;
  std::string from;
  std::string bytes;
  Deadline hello_by;           // by when it has shown that it belongs here
  std::optional<Hello> hello;  // once it has said so
  std::string challenge = {};  // which it is to answer
  std::optional<int> rank;     // once accepted
  size_t slot = PollSet::kNone;
};

class Host {
 public:
  Host(const UniqueFd& listener, std::string place, int size, const std::string& payload,
       const RendezvousOptions& options)
      : listener_(listener), place_(std::move(place)), options_(options) {
    payloads_.resize(static_cast<size_t>(size));
    payloads_[0] = payload;
    deadline_ = Clock::now() + options.timeout;
  }

  std::vector<std::string> run() {
    while (!missing().empty()) {
      if (Clock::now() >= deadline_) fail_missing();
      wait_for_events();
      for (Visitor& visitor : visitors_) {
        if (poll_.ready(visitor.slot)) read(visitor);
      }
      drop_late_strangers();
      std::erase_if(visitors_, [](const Visitor& visitor) { return !visitor.fd.valid(); });
      if (poll_.ready(listener_slot_)) accept_visitors();
    }
    hand_out_table();
    return std::move(payloads_);
  }

 private:
  [[nodiscard]] int size() const { return static_cast<int>(payloads_.size()); }

  [[nodiscard]] Visitor* visitor_of(int rank) {
    const auto found = std::find_if(visitors_.begin(), visitors_.end(), [&](const Visitor& v) {
      return v.fd.valid() && v.rank == rank;
    });
    return found == visitors_.end() ? nullptr : &*found;
  }

  [[nodiscard]] std::vector<int> missing() {
    std::vector<int> ranks;
    for (int rank = 1; rank < size(); ++rank) {
      if (visitor_of(rank) == nullptr) ranks.push_back(rank);
    }
    return ranks;
  }

  void note(const std::string& text) const {
    if (options_.on_note) options_.on_note(fmt::format("rendezvous at {}: {}", place_, text));
  }

  void wait_for_events() {
    Deadline wake = deadline_;
    poll_.clear();
    const bool accepting = Clock::now() >= accept_from_;
    listener_slot_ = accepting ? poll_.add(listener_.get(), POLLIN) : PollSet::kNone;
    if (!accepting) wake = std::min(wake, accept_from_);
    for (Visitor& visitor : visitors_) {
      visitor.slot = poll_.add(visitor.fd.get(), POLLIN);
      if (!visitor.rank) wake = std::min(wake, visitor.hello_by);
    }
    poll_.wait(std::chrono::ceil<milliseconds>(wake - Clock::now()));
  }

  void accept_visitors() {
    try {
      for (size_t i = 0; i < kMaxStrangers; ++i) {
        Visitor visitor;
        visitor.fd = accept_from(listener_.get(), visitor.from);
        if (!visitor.fd.valid()) return;
        visitor.hello_by = Clock::now() + kHelloTime;
        visitors_.push_back(std::move(visitor));
        make_room();
      }
    } catch (const Error& error) {
      note(error.what());
      accept_from_ = Clock::now() + kAcceptPause;
    }
  }

  // Whoever opens connections and says nothing must not keep the ranks out.
  void make_room() {
    const auto is_stranger = [](const Visitor& visitor) { return !visitor.rank; };
    const auto strangers = std::count_if(visitors_.begin(), visitors_.end(), is_stranger);
    if (static_cast<size_t>(strangers) <= kMaxStrangers) return;
    const auto oldest = std::find_if(visitors_.begin(), visitors_.end(), is_stranger);
    note(fmt::format("dropped {}, which said nothing while {} others waited", oldest->from,
                     strangers - 1));
    visitors_.erase(oldest);
  }

  void drop_late_strangers() {
    for (Visitor& visitor : visitors_) {
      if (visitor.rank || !visitor.fd.valid() || Clock::now() < visitor.hello_by) continue;
      note(fmt::format("dropped {}, which did not say who it is within {} s", visitor.from,
                       kHelloTime.count() / 1000));
      visitor.fd.reset();
    }
  }

  void read(Visitor& visitor) {
    const Received received = receive_some(visitor.fd.get(), visitor.bytes);
    if (received == Received::kNothingYet) return;
    if (visitor.rank) return lose(visitor);
    if (received == Received::kClosed) return visitor.fd.reset();
    try {
      while (visitor.fd.valid() && !visitor.rank) {
        const std::optional<Frame> frame = take_frame(visitor.bytes, kMaxHelloBytes);
        if (!frame) return;
        answer(visitor, *frame);
      }
    } catch (const Error& error) {
      note(fmt::format("dropped {}: {}", visitor.from, error.what()));
      visitor.fd.reset();
    }
  }

  // An accepted rank says nothing more: it has closed the connection, or it is broken.
  void lose(Visitor& visitor) {
    note(fmt::format("rank {} ({}) left before all ranks had come", *visitor.rank, visitor.from));
    visitor.fd.reset();
  }

  void answer(Visitor& visitor, const Frame& frame) {
    if (frame.version != kRendezvousVersion) {
      return refuse(visitor, fmt::format("it speaks version {} of the rendezvous, rank 0 version "
                                         "{}: start all ranks from the same build",
                                         frame.version, kRendezvousVersion));
    }
    if (!visitor.hello) {
      require(frame.kind == FrameKind::kHello, "its first frame is no hello");
      visitor.hello = parse_hello(frame);
      visitor.challenge = random_token();
      return answer_with(visitor, to_bytes(FrameKind::kChallenge, visitor.challenge));
    }
    require(frame.kind == FrameKind::kProof, "it does not answer the challenge");
    if (!same_token(parse_text(frame), proof_for(visitor, "guest"))) {
      return refuse(visitor,
                    "its token is not the one of rank 0: it belongs to another run, or "
                    "TESSERA_RUN_TOKEN differs between the ranks");
    }
    const Hello& hello = *visitor.hello;
    const std::string objection = objection_to(hello);
    if (!objection.empty()) return refuse(visitor, objection);
    answer_with(visitor, to_bytes(FrameKind::kAccepted, proof_for(visitor, "host")));
    if (!visitor.fd.valid()) return;
    visitor.rank = static_cast<int>(hello.rank);
    payloads_[hello.rank] = hello.payload;
  }

  [[nodiscard]] std::string proof_for(const Visitor& visitor, std::string_view word,
                                      std::span<const std::string> payloads = {}) const {
    return proof_of(word, *visitor.hello, visitor.challenge, options_.token, payloads);
  }

  static void answer_with(Visitor& visitor, const std::string& bytes) {
    if (!send_all(visitor.fd.get(), bytes, Clock::now() + kRefuseTime)) visitor.fd.reset();
  }

  // Why a rank that knows the token cannot take part; empty: it can.
  [[nodiscard]] std::string objection_to(const Hello& hello) {
    if (hello.size != payloads_.size()) {
      return fmt::format(
          "it says that the world has {} ranks, rank 0 says {}: give all ranks the "
          "same size",
          hello.size, size());
    }
    if (hello.rank >= payloads_.size()) {
      return fmt::format("it says that it is rank {} of {}", hello.rank, size());
    }
    const Visitor* other = visitor_of(static_cast<int>(hello.rank));
    if (hello.rank == 0 || other != nullptr) {
      return fmt::format("rank {} is there already ({}): give every rank its own number",
                         hello.rank,
                         other == nullptr ? "it hosts the rendezvous" : "from " + other->from);
    }
    if (hello.payload.size() > Rendezvous::kMaxPayloadBytes) return "its payload is too long";
    return options_.objection ? options_.objection(static_cast<int>(hello.rank), hello.payload)
                              : "";
  }

  void refuse(Visitor& visitor, const std::string& reason) {
    note(fmt::format("refused {}: {}", visitor.from, reason));
    send_all(visitor.fd.get(), to_bytes(Refusal{.wrongly_started = true, .reason = reason}),
             Clock::now() + kRefuseTime);
    visitor.fd.reset();
  }

  [[noreturn]] void fail_missing() {
    const std::vector<int> absent = missing();
    const std::string reason = fmt::format(
        "rendezvous at {}: {} of {} did not come within {:.1f} s; see their output, or give them "
        "more time",
        place_, rank_list(absent), size(), std::chrono::duration<double>(options_.timeout).count());
    const std::string refusal = to_bytes(Refusal{.wrongly_started = false, .reason = reason});
    tell_all([&](const Visitor&) { return refusal; }, Clock::now() + kRefuseTime);
    throw CommError(reason);
  }

  // Returns the first rank that did not take it.
  std::optional<int> tell_all(const std::function<std::string(const Visitor&)>& words,
                              Deadline deadline) {
    std::optional<int> deaf;
    for (const Visitor& visitor : visitors_) {
      if (!visitor.rank || send_all(visitor.fd.get(), words(visitor), deadline)) continue;
      if (!deaf) deaf = visitor.rank;
    }
    return deaf;
  }

  void hand_out_table() {
    const auto table_for = [this](const Visitor& visitor) {
      return to_bytes(Table{payloads_, proof_for(visitor, "table", payloads_)});
    };
    const std::optional<int> deaf = tell_all(table_for, Clock::now() + kTableTime);
    if (!deaf) return;
    throw CommError(fmt::format("rendezvous at {}: rank {} left while the ranks were introduced",
                                place_, *deaf));
  }

  const UniqueFd& listener_;
  const std::string place_;
  const RendezvousOptions& options_;
  std::vector<std::string> payloads_;
  std::vector<Visitor> visitors_;
  PollSet poll_;
  size_t listener_slot_ = PollSet::kNone;
  Deadline deadline_;
  Deadline accept_from_{};
};

}  // namespace

std::vector<std::string> host_rendezvous(const UniqueFd& listener, const std::string& place,
                                         int size, const std::string& payload,
                                         const RendezvousOptions& options) {
  return Host(listener, place, size, payload, options).run();
}

}  // namespace tessera
