#include "launch/hosts/rank_mesh.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/hmac.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "launch/hosts/handshake.h"
#include "launch/poll_set.h"
#include "launch/rank_list.h"
#include "launch/rendezvous/frame_body.h"
#include "launch/rendezvous/host_identity.h"
#include "launch/rendezvous/socket.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGreetingTime{3'000};
constexpr milliseconds kPause{50};
constexpr size_t kMaxVisitors = 256;

// What ranks tell each other of themselves.
struct Presence {
  int rank = 0;
  int64_t pid = 0;
  std::string host;
};

std::string to_body(const Presence& presence) {
  std::string bytes;
  put_number(bytes, static_cast<uint32_t>(presence.rank));
  put_long(bytes, static_cast<uint64_t>(presence.pid));
  put_text(bytes, presence.host.substr(0, 64));
  return bytes;
}

Presence parse_presence(std::string_view bytes, int size) {
  FrameBody body(bytes);
  const uint32_t rank = body.number();
  require(rank < static_cast<uint32_t>(size), "rank {} of {}", rank, size);
  Presence presence{.rank = static_cast<int>(rank),
                    .pid = static_cast<int64_t>(body.long_number()),
                    .host = shortened(body.text())};
  body.end();
  return presence;
}

// "10.0.0.5:4711", "[fe80::1]:4711"
std::pair<std::string, int> host_and_port(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  const char* const end = address.data() + address.size();
  const bool read = colon != std::string::npos &&
                    std::from_chars(address.data() + colon + 1, end, port).ptr == end && port > 0;
  require(read, "{} is no address of a rank", in_quotes(address));
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return {host, port};
}

class Mesh {
 public:
  Mesh(const LaunchContext& context, const RankMeshOptions& options)
      : context_(context),
        options_(options),
        listener_(context.listener_fd),
        deadline_(Clock::now() + options.timeout),
        peers_(static_cast<size_t>(context.size)) {
    mine_ = {.rank = context.rank, .pid = ::getpid(), .host = this_host().name};
  }
  ~Mesh() {
    for (const TcpPeer& peer : peers_) {
      if (peer.socket >= 0) ::close(peer.socket);
    }
  }
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  std::vector<TcpPeer> connect() {
    add(mine_, UniqueFd());
    for (int rank = 0; rank < context_.rank; ++rank) visit(rank);
    while (!missing().empty()) {
      if (Clock::now() >= deadline_) {
        throw CommError(fmt::format("rank {} waited {:.1f} s for {} to connect", context_.rank,
                                    std::chrono::duration<double>(options_.timeout).count(),
                                    rank_list(missing())));
      }
      receive_visitors();
    }
    return std::exchange(peers_, {});
  }

 private:
  struct Visitor {
    ControlLink link;
    HostHandshake handshake;
    Clock::time_point greet_by;
    size_t slot = PollSet::kNone;
  };

  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = context_.rank + 1; rank < context_.size; ++rank) {
      if (peers_[static_cast<size_t>(rank)].socket < 0) ranks.push_back(rank);
    }
    return ranks;
  }

  void add(const Presence& presence, UniqueFd fd) {
    TcpPeer& peer = peers_[static_cast<size_t>(presence.rank)];
    peer = {.socket = fd.release(),
            .pid = presence.pid,
            .host = presence.host,
            .node = presence.rank / context_.local_size.value()};
  }

  [[nodiscard]] ControlFrame greeting(const Presence& presence) const {
    return {.run = context_.run_id,
            .generation = static_cast<uint64_t>(context_.generation),
            .body = to_body(presence)};
  }

  void visit(int rank) {
    const auto [host, port] = host_and_port(context_.addresses[static_cast<size_t>(rank)]);
    std::string why;
    while (Clock::now() < deadline_) {
      try {
        ControlLink link(connect_to(host, port, deadline_), fmt::format("rank {}", rank),
                         /*is_host=*/false);
        const ControlFrame welcome = introduce(link, context_.mesh_key, greeting(mine_), deadline_);
        const Presence peer = parse_presence(welcome.body, context_.size);
        require(peer.rank == rank, "it says that it is rank {}", peer.rank);
        return add(peer, link.release());
      } catch (const LinkRefused& refused) {
        throw CommError(
            fmt::format("rank {} refuses rank {}: {}", rank, context_.rank, refused.what()));
      } catch (const Error& error) {
        why = error.what();
      }
      std::this_thread::sleep_for(kPause);
    }
    throw CommError(fmt::format("rank {} does not reach rank {} at {}: {}", context_.rank, rank,
                                address_text(host, port), why));
  }

  void receive_visitors() {
    poll_.clear();
    const size_t listener_slot = poll_.add(listener_.get(), POLLIN);
    for (const std::unique_ptr<Visitor>& visitor : visitors_) {
      visitor->slot = poll_.add(visitor->link.fd(), POLLIN);
    }
    poll_.wait(kPause);
    for (const std::unique_ptr<Visitor>& visitor : visitors_) {
      if (poll_.ready(visitor->slot)) serve(*visitor);
      if (Clock::now() >= visitor->greet_by) visitor->link.close();
    }
    std::erase_if(visitors_, [](const auto& visitor) { return !visitor->link.open(); });
    if (!poll_.ready(listener_slot) || visitors_.size() >= kMaxVisitors) return;
    std::string from;
    UniqueFd fd = accept_from(listener_.get(), from);
    if (!fd.valid()) return;
    visitors_.push_back(std::make_unique<Visitor>(
        Visitor{.link = ControlLink(std::move(fd), from, /*is_host=*/true),
                .handshake = HostHandshake(context_.mesh_key),
                .greet_by = Clock::now() + kGreetingTime}));
  }

  void serve(Visitor& visitor) {
    try {
      while (const std::optional<ControlFrame> frame = visitor.link.take()) {
        const auto shown = visitor.handshake.take(visitor.link, *frame);
        if (!shown) continue;
        return receive(visitor, *shown);
      }
    } catch (const Error& error) {
      note(fmt::format("dropped {}: {}", visitor.link.from(), error.what()));
      visitor.link.close();
    }
  }

  void receive(Visitor& visitor, const ControlFrame& shown) {
    const Presence peer = parse_presence(shown.body, context_.size);
    std::string objection;
    if (shown.run != context_.run_id) objection = "it belongs to another run";
    if (shown.generation != static_cast<uint64_t>(context_.generation)) {
      objection = fmt::format("it is of generation {}, and this is generation {}", shown.generation,
                              context_.generation);
    }
    if (peer.rank <= context_.rank || peers_[static_cast<size_t>(peer.rank)].socket >= 0) {
      objection = fmt::format("rank {} is there already", peer.rank);
    }
    if (!objection.empty()) {
      note(fmt::format("refused {}: {}", visitor.link.from(), objection));
      refuse(visitor.link, objection, true);
      return visitor.link.close();
    }
    welcome(visitor.link, visitor.handshake, greeting(mine_));
    add(peer, visitor.link.release());
  }

  void note(const std::string& text) const {
    if (options_.on_note) options_.on_note(fmt::format("rank {}: {}", context_.rank, text));
  }

  const LaunchContext& context_;
  const RankMeshOptions& options_;
  UniqueFd listener_;
  Deadline deadline_;
  Presence mine_;
  std::vector<TcpPeer> peers_;
  std::vector<std::unique_ptr<Visitor>> visitors_;
  PollSet poll_;
};

}  // namespace

std::string mesh_key(const std::string& token, uint64_t run, uint64_t generation) {
  std::string text = "ranks";
  put_long(text, run);
  put_long(text, generation);
  const std::string key = hmac_sha256(token, text);
  std::string digits;
  for (const char byte : key) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

std::vector<TcpPeer> connect_ranks(const LaunchContext& context, const RankMeshOptions& options) {
  return Mesh(context, options).connect();
}

}  // namespace tessera
