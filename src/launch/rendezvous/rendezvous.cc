#include "launch/rendezvous/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/text/text.h"
#include "comm/communicator.h"
#include "launch/rendezvous/meeting_file.h"
#include "launch/rendezvous/private_folder.h"
#include "launch/rendezvous/rendezvous_guest.h"
#include "launch/rendezvous/rendezvous_host.h"
#include "launch/rendezvous/socket.h"
#include "launch/rendezvous/token.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{200};
constexpr milliseconds kConnectTime{3'000};  // for one attempt
// Rank 0 gives up first, and then says who is missing.
constexpr milliseconds kSlack{2'000};
constexpr size_t kMaxTokenBytes = 1024;
constexpr int kMaxPort = 65535;
constexpr const char* kLoopback = "127.0.0.1";

// Calls `attempt` until it returns an Acceptance. It throws Error where another try may help.
template <typename Attempt>
std::vector<std::string> visit_until(const RendezvousOptions& options, int rank,
                                     const std::string& place, Attempt attempt) {
  const Deadline deadline = Clock::now() + options.timeout;
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    std::string why;
    try {
      Acceptance acceptance = attempt(std::min(deadline, Clock::now() + kConnectTime));
      return await_table(acceptance, options.timeout + kSlack);
    } catch (const RefusedError&) {
      throw;
    } catch (const CommError&) {
      throw;
    } catch (const Error& error) {
      why = error.what();
    }
    const Deadline now = Clock::now();
    if (now >= deadline) {
      throw CommError(fmt::format("rank {} did not find rank 0 {} within {:.1f} s: {}", rank, place,
                                  std::chrono::duration<double>(options.timeout).count(), why));
    }
    std::this_thread::sleep_until(std::min(now + pause, deadline));
  }
}

void check_exchange(int rank, int size, const std::string& payload,
                    const RendezvousOptions& options) {
  require_config(size >= 1 && rank >= 0 && rank < size, "rank {} of {} cannot meet anybody", rank,
                 size);
  require(payload.size() <= Rendezvous::kMaxPayloadBytes,
          "rank {} brings {} bytes to the rendezvous; the limit is {}", rank, payload.size(),
          Rendezvous::kMaxPayloadBytes);
  require_config(options.token.size() <= kMaxTokenBytes,
                 "the run token has {} bytes; the limit is {}", options.token.size(),
                 kMaxTokenBytes);
  const bool printable = std::all_of(options.token.begin(), options.token.end(),
                                     [](char c) { return c > ' ' && c <= '~'; });
  require_config(printable, "the run token {} has characters other than printable ASCII",
                 in_quotes(options.token));
}

Hello hello_from(int rank, int size, const std::string& payload) {
  return {.nonce = {},
          .rank = static_cast<uint32_t>(rank),
          .size = static_cast<uint32_t>(size),
          .payload = payload};
}

class AddressRendezvous : public Rendezvous {
 public:
  AddressRendezvous(MeetingAddress address, RendezvousOptions options)
      : address_(std::move(address)), options_(std::move(options)) {}

  std::vector<std::string> exchange(int rank, int size, const std::string& payload) override {
    check_exchange(rank, size, payload, options_);
    if (size == 1) return {payload};
    require_token();
    require_config(address_.port >= 1 && address_.num_ports >= 1 &&
                       address_.port + address_.num_ports - 1 <= kMaxPort,
                   "{} ports from {} on: ports go from 1 to {}", address_.num_ports, address_.port,
                   kMaxPort);
    if (rank == 0) {
      const Listener listener = listen();
      return host_rendezvous(listener.fd, address_text(address_.host, listener.port), size, payload,
                             options_);
    }
    const Hello hello = hello_from(rank, size, payload);
    const std::string place = "at " + address_text(address_.host, address_.port);
    int next = 0;
    return visit_until(options_, rank, place, [&](Deadline connect_by) {
      const int port = address_.port + next++ % address_.num_ports;
      return introduce(address_.host, port, hello, options_.token, connect_by);
    });
  }

 private:
  void require_token() const {
    require_config(
        !options_.token.empty(),
        "MASTER_ADDR is {}, where {} can reach rank 0, and there is no run token: give all ranks "
        "the same secret, such as export TESSERA_RUN_TOKEN=$(openssl rand -hex 16) "
        "(docs/multi-machine.md)",
        in_quotes(address_.host),
        is_only_here(address_.host) ? "other users of this host" : "other hosts");
  }

  [[nodiscard]] Listener listen() const {
    std::string why;
    for (int i = 0; i < address_.num_ports; ++i) {
      try {
        return listen_on(address_.host, address_.port + i);
      } catch (const Error& error) {
        why = error.what();
      }
    }
    throw ConfigError(fmt::format(
        "rank 0: {}: run rank 0 on the host of MASTER_ADDR and choose a free MASTER_PORT", why));
  }

  MeetingAddress address_;
  RendezvousOptions options_;
};

class FileRendezvous : public Rendezvous {
 public:
  FileRendezvous(std::string path, RendezvousOptions options, bool only_here)
      : path_(std::move(path)), options_(std::move(options)), only_here_(only_here) {}

  std::vector<std::string> exchange(int rank, int size, const std::string& payload) override {
    check_exchange(rank, size, payload, options_);
    if (size == 1) return {payload};
    if (rank == 0) return host(size, payload);
    return visit_until(
        options_, rank, fmt::format("through the file '{}'", path_),
        [&](Deadline connect_by) { return find_rank_0(rank, size, payload, connect_by); });
  }

 private:
  std::vector<std::string> host(int size, const std::string& payload) {
    // In the file, which only this user can read, a token of our own is a secret.
    if (options_.token.empty()) options_.token = random_token();
    const Listener listener = only_here_ ? listen_on(kLoopback, 0) : listen_on_all_addresses();
    const MeetingFile file(
        path_, {.addresses = only_here_ ? std::vector<std::string>{kLoopback} : own_addresses(),
                .port = listener.port,
                .token = options_.token,
                .host = this_host(),
                .pid = ::getpid(),
                .started = start_time_of(::getpid()).value_or(0)});
    return host_rendezvous(listener.fd, "'" + path_ + "'", size, payload, options_);
  }

  Acceptance find_rank_0(int rank, int size, const std::string& payload, Deadline connect_by) {
    const std::string text = read_meeting_file(path_);
    const std::optional<MeetingNote> note = parse_meeting_note(text);
    require(note.has_value(), "there is no such file, or it is not complete");
    const HostIdentity here = this_host();
    require(!surely_dead(*note, here), "the file is from a dead run");
    const std::string& token = options_.token.empty() ? note->token : options_.token;
    const Hello hello = hello_from(rank, size, payload);
    std::string why = "the file names no address that can be reached from here";
    for (const std::string& address : note->addresses) {
      if (is_loopback(address) && !note->host.same_place(here)) continue;
      try {
        return introduce(address, note->port, hello, token, connect_by);
      } catch (const RefusedError&) {
        // The port of a dead run may have gone to another one; the own rank 0 replaces the file
        // then. A file that is gone only says that the run which refused goes on.
        const std::string now = read_meeting_file(path_);
        if (now == text || now.empty()) throw;
        why = "the file changed";
      } catch (const Error& error) {
        why = error.what();
      }
    }
    throw Error(why);
  }

  std::string path_;
  RendezvousOptions options_;
  bool only_here_;
};

}  // namespace

std::unique_ptr<Rendezvous> rendezvous_at(MeetingAddress address, RendezvousOptions options) {
  return std::make_unique<AddressRendezvous>(std::move(address), std::move(options));
}

std::unique_ptr<Rendezvous> rendezvous_through_file(std::string path, RendezvousOptions options,
                                                    bool only_here) {
  return std::make_unique<FileRendezvous>(std::move(path), std::move(options), only_here);
}

std::unique_ptr<Rendezvous> rendezvous_for(const LaunchContext& context, RendezvousOptions options,
                                           const std::string& private_root) {
  if (options.token.empty()) options.token = context.token;
  if (!context.rendezvous_file.empty()) {
    return rendezvous_through_file(context.rendezvous_file, std::move(options));
  }
  const bool all_here = context.local_size == context.size;
  if (context.size > 1 && options.token.empty() &&
      (all_here || is_only_here(context.master_address))) {
    const std::string file =
        fmt::format("{}/meet-{}", private_folder(private_root), context.master_port);
    return rendezvous_through_file(file, std::move(options), /*only_here=*/true);
  }
  return rendezvous_at(
      {.host = context.master_address, .port = context.master_port, .num_ports = context.num_ports},
      std::move(options));
}

}  // namespace tessera
