#include "launch/agent/handover.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "comm/communicator.h"
#include "launch/rank_list.h"
#include "launch/rendezvous/token.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kGreetingTime{2'000};  // of one visitor
constexpr size_t kMaxTextBytes = 4096;
constexpr char kHere = '+';  // a descriptor comes with it
constexpr char kSorry = '-';

struct LocalAddress {
  sockaddr_un address{};
  socklen_t length = 0;
};

// A name that begins with a null byte exists only while a socket is bound to it.
LocalAddress abstract_address(const std::string& name) {
  LocalAddress local;
  local.address.sun_family = AF_UNIX;
  TESSERA_CHECK(name.size() + 1 <= sizeof(local.address.sun_path), "socket name {}", name);
  std::copy(name.begin(), name.end(), local.address.sun_path + 1);
  local.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return local;
}

UniqueFd local_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  require(fd.valid(), "cannot make a socket: {}", std::strerror(errno));
  return fd;
}

ucred peer_of(const UniqueFd& fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  const int failed = ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length);
  require(failed == 0, "cannot tell who connected: {}", std::strerror(errno));
  return peer;
}

// One message with at most one descriptor: room for it, aligned as the system wants it.
struct Parcel {
  std::array<char, kMaxTextBytes> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec part{};
  msghdr message{};

  explicit Parcel(size_t text_bytes) {
    part = {.iov_base = text.data(), .iov_len = text_bytes};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
};

bool send_descriptor(const UniqueFd& to, int fd) {
  Parcel parcel(1);
  parcel.text[0] = kHere;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(fd));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return ::sendmsg(to.get(), &parcel.message, MSG_NOSIGNAL) == 1;
}

std::string receive_text(const UniqueFd& from, Deadline deadline) {
  require(wait_ready(from.get(), POLLIN, deadline), "it says nothing");
  std::array<char, kMaxTextBytes> text;
  const ssize_t got = ::recv(from.get(), text.data(), text.size(), 0);
  require(got > 0, "it went away");
  return {text.data(), static_cast<size_t>(got)};
}

UniqueFd receive_descriptor(const UniqueFd& from, Deadline deadline) {
  require(wait_ready(from.get(), POLLIN, deadline), "it did not answer in time");
  Parcel parcel(kMaxTextBytes);
  const ssize_t got = ::recvmsg(from.get(), &parcel.message, MSG_CMSG_CLOEXEC);
  require(got > 0, "it went away");
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  UniqueFd fd;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header), sizeof(number));
    fd = UniqueFd(number);
  }
  require(parcel.text[0] == kHere, "{}",
          std::string_view(parcel.text.data() + 1, static_cast<size_t>(got - 1)));
  // The system drops a descriptor that the receiver has no number left for.
  require(fd.valid(), "no descriptor came: is the limit on open files ('ulimit -n') reached?");
  return fd;
}

}  // namespace

HandoverDesk::HandoverDesk() : name_("tessera-" + random_token()), listener_(local_socket()) {
  const LocalAddress local = abstract_address(name_);
  const auto* address = reinterpret_cast<const sockaddr*>(&local.address);
  const bool listens = ::bind(listener_.get(), address, local.length) == 0 &&
                       ::listen(listener_.get(), SOMAXCONN) == 0;
  require(listens, "cannot listen on a local socket: {}", std::strerror(errno));
}

void HandoverDesk::serve(const std::vector<pid_t>& pids, int fd, const std::string& failure,
                         Deadline deadline) {
  std::vector<int> waiting;
  for (size_t rank = 1; rank < pids.size(); ++rank) waiting.push_back(static_cast<int>(rank));
  while (!waiting.empty() && wait_ready(listener_.get(), POLLIN, deadline)) {
    const UniqueFd visitor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor.valid()) continue;
    try {
      const int rank = identify(visitor, pids, std::min(deadline, Clock::now() + kGreetingTime));
      const std::string sorry = (kSorry + failure).substr(0, kMaxTextBytes);
      const bool served = failure.empty()
                              ? send_descriptor(visitor, fd)
                              : ::send(visitor.get(), sorry.data(), sorry.size(), MSG_NOSIGNAL) > 0;
      if (served) std::erase(waiting, rank);
    } catch (const Error&) {
      // A stranger, who gets nothing: the ranks that are missing at the end are named.
    }
  }
  if (waiting.empty()) return;
  throw CommError(
      fmt::format("rank 0 waited in vain for {} to fetch the shared memory", rank_list(waiting)));
}

int HandoverDesk::identify(const UniqueFd& visitor, const std::vector<pid_t>& pids,
                           Deadline deadline) const {
  const ucred peer = peer_of(visitor);
  require(peer.uid == ::geteuid() && std::count(pids.begin(), pids.end(), peer.pid) > 0,
          "pid {} is none of the ranks", peer.pid);
  const std::string greeting = receive_text(visitor, deadline);
  for (size_t rank = 1; rank < pids.size(); ++rank) {
    if (pids[rank] == peer.pid && greeting == fmt::format("{} {}", name_, rank)) {
      return static_cast<int>(rank);
    }
  }
  throw Error("it does not say who it is");
}

UniqueFd fetch_handover(const std::string& name, pid_t pid, int rank, Deadline deadline) {
  try {
    const UniqueFd desk = local_socket();
    const LocalAddress local = abstract_address(name);
    const auto* address = reinterpret_cast<const sockaddr*>(&local.address);
    // The queue is full for a moment when many ranks come at once.
    while (::connect(desk.get(), address, local.length) != 0) {
      require(errno == EAGAIN && Clock::now() < deadline, "{}", std::strerror(errno));
      ::poll(nullptr, 0, 10);
    }
    const ucred peer = peer_of(desk);
    require(peer.pid == pid && peer.uid == ::geteuid(), "pid {} is not rank 0", peer.pid);
    const std::string greeting = fmt::format("{} {}", name, rank);
    const ssize_t sent = ::send(desk.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
    require(sent > 0, "{}", std::strerror(errno));
    return receive_descriptor(desk, deadline);
  } catch (const Error& error) {
    throw CommError(fmt::format("rank {} cannot fetch the shared memory from rank 0 (pid {}): {}",
                                rank, pid, error.what()));
  }
}

}  // namespace tessera
