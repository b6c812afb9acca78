#include "launch/hosts/coordinator_server.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "launch/hosts/handshake.h"
#include "launch/poll_set.h"
#include "launch/rendezvous/socket.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGreetingTime{3'000};  // from connecting to the proof
constexpr milliseconds kFarewellTime{2'000};  // for the agents to hear of the end
constexpr milliseconds kRefusalTime{200};     // for a refused one to take the reason
constexpr milliseconds kLongestSleep{100};
constexpr size_t kMaxStrangers = 64;
constexpr int kMostNotes = 50;

struct Visitor {
  ControlLink link;
  HostHandshake handshake;
  Clock::time_point greet_by;
  int host = -1;  // once welcome
  bool refused = false;
  size_t slot = PollSet::kNone;
};

class Server {
 public:
  Server(const UniqueFd& listener, const CoordinatorServerOptions& options)
      : listener_(listener),
        options_(options),
        coordinator_(options.coordinator, options.state, Clock::now()) {}

  RunEnd run() {
    std::optional<Clock::time_point> leave_at;
    while (true) {
      coordinator_.tick(Clock::now());
      send_orders();
      if (coordinator_.end() && !leave_at) leave_at = Clock::now() + kFarewellTime;
      if (leave_at && (Clock::now() >= *leave_at || nobody_listens())) return *coordinator_.end();
      wait_for_events();
      for (const std::unique_ptr<Visitor>& visitor : visitors_) {
        if (poll_.ready(visitor->slot)) serve(*visitor);
      }
      drop_closed();
      if (poll_.ready(listener_slot_)) accept_visitors();
    }
  }

 private:
  void note(const std::string& text) const {
    if (options_.coordinator.on_note) options_.coordinator.on_note(text);
  }

  // Whoever keeps coming must not fill the log.
  void note_stranger(const std::string& text) {
    if (++strangers_noted_ <= kMostNotes) note(text);
    if (strangers_noted_ == kMostNotes) note("more visitors that are sent away are not said");
  }

  [[nodiscard]] bool nobody_listens() const {
    return std::none_of(visitors_.begin(), visitors_.end(),
                        [](const auto& visitor) { return visitor->host >= 0; });
  }

  void wait_for_events() {
    poll_.clear();
    listener_slot_ = poll_.add(listener_.get(), POLLIN);
    for (const std::unique_ptr<Visitor>& visitor : visitors_) {
      const int events = POLLIN | (visitor->link.has_output() ? POLLOUT : 0);
      visitor->slot = poll_.add(visitor->link.fd(), static_cast<short>(events));
    }
    const auto until = std::chrono::ceil<milliseconds>(coordinator_.next_deadline() - Clock::now());
    poll_.wait(std::clamp(until, milliseconds(1), kLongestSleep));
  }

  void accept_visitors() {
    try {
      for (size_t i = 0; i < kMaxStrangers; ++i) {
        std::string from;
        UniqueFd fd = accept_from(listener_.get(), from);
        if (!fd.valid()) return;
        visitors_.push_back(std::make_unique<Visitor>(
            Visitor{.link = ControlLink(std::move(fd), from, /*is_host=*/true),
                    .handshake = HostHandshake(options_.token),
                    .greet_by = Clock::now() + kGreetingTime}));
        make_room();
      }
    } catch (const Error& error) {
      note(error.what());  // no descriptor is left: those that wait are asked again
    }
  }

  // Whoever opens connections and says nothing must not keep the agents out.
  void make_room() {
    const auto is_stranger = [](const auto& visitor) { return visitor->host < 0; };
    if (std::count_if(visitors_.begin(), visitors_.end(), is_stranger) <=
        static_cast<std::ptrdiff_t>(kMaxStrangers)) {
      return;
    }
    visitors_.erase(std::find_if(visitors_.begin(), visitors_.end(), is_stranger));
  }

  void serve(Visitor& visitor) {
    try {
      visitor.link.send_some();
      while (std::optional<ControlFrame> frame = visitor.link.take()) {
        if (visitor.refused) continue;
        if (visitor.host >= 0) {
          coordinator_.hear(Clock::now(), visitor.host, *frame);
        } else if (const auto greeting = visitor.handshake.take(visitor.link, *frame)) {
          greet(visitor, *greeting);
        }
      }
    } catch (const Error& error) {
      note_stranger(fmt::format("dropped {}: {}", visitor.link.from(), error.what()));
      if (visitor.host < 0 && visitor.link.has_output()) {
        let_go(visitor);
      } else {
        visitor.link.close();
      }
    }
  }

  void greet(Visitor& visitor, const ControlFrame& greeting) {
    const HostHello hello = parse_hello(greeting.body);
    const Coordinator::Answer answer =
        coordinator_.join(Clock::now(), hello, greeting.run, greeting.generation);
    if (!answer.refusal.empty()) {
      note_stranger(fmt::format("refused {}, which says that it is host {}: {}",
                                visitor.link.from(), hello.host, answer.refusal));
      refuse(visitor.link, answer.refusal, answer.for_good);
      return let_go(visitor);
    }
    // The former connection of this agent, which it has given up.
    for (const std::unique_ptr<Visitor>& other : visitors_) {
      if (other.get() == &visitor || other->host != hello.host) continue;
      other->host = -1;
      other->link.close();
    }
    const std::string lease = std::to_string(options_.coordinator.lease.count());
    welcome(visitor.link, visitor.handshake,
            {.run = coordinator_.state().run,
             .generation = coordinator_.state().generation,
             .body = lease});
    visitor.host = hello.host;
  }

  static void let_go(Visitor& visitor) {
    visitor.refused = true;
    visitor.greet_by = std::min(visitor.greet_by, Clock::now() + kRefusalTime);
  }

  void drop_closed() {
    for (const std::unique_ptr<Visitor>& visitor : visitors_) {
      if (visitor->host >= 0 || Clock::now() < visitor->greet_by) continue;
      if (!visitor->refused) {
        note_stranger(fmt::format("dropped {}, which did not say who it is", visitor->link.from()));
      }
      visitor->link.close();
    }
    std::erase_if(visitors_, [&](const std::unique_ptr<Visitor>& visitor) {
      if (visitor->link.open()) return false;
      if (visitor->host >= 0) coordinator_.disconnected(visitor->host);
      return true;
    });
  }

  void send_orders() {
    for (const HostOrder& order : coordinator_.take_orders()) {
      for (const std::unique_ptr<Visitor>& visitor : visitors_) {
        if (visitor->host == order.host) visitor->link.send(order.frame);
      }
    }
  }

  const UniqueFd& listener_;
  const CoordinatorServerOptions& options_;
  Coordinator coordinator_;
  std::vector<std::unique_ptr<Visitor>> visitors_;
  PollSet poll_;
  size_t listener_slot_ = PollSet::kNone;
  int strangers_noted_ = 0;
};

}  // namespace

RunEnd run_coordinator(const UniqueFd& listener, const CoordinatorServerOptions& options) {
  return Server(listener, options).run();
}

}  // namespace tessera
