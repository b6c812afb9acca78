#include "serve/ranks/rank_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::array<char, 4> kMagic = {'T', 'S', 'R', 'L'};
constexpr uint32_t kLastKind = static_cast<uint32_t>(LinkKind::kLast);
// One message in a socket, where the system allows it: a writer seldom waits.
constexpr int kSocketBytes = 1 << 20;

void put_word(std::byte* to, uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

uint32_t word_at(const std::byte* from) {
  uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= static_cast<uint32_t>(from[i]) << (8 * i);
  return value;
}

int milliseconds_until(RankLink::Time deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

}  // namespace

RankLink::RankLink(UniqueFd socket, std::string who, size_t most_body)
    : socket_(std::move(socket)), who_(std::move(who)), most_body_(most_body) {}

RankLink::Sent RankLink::send(LinkKind kind, std::span<const std::byte> body, Time deadline,
                              int wake_fd) {
  TESSERA_CHECK(body.size() <= most_body_, "a message of {} bytes to {}", body.size(), who_);
  std::array<std::byte, kHeader> header;
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put_word(header.data() + 4, static_cast<uint32_t>(kind));
  put_word(header.data() + 8, static_cast<uint32_t>(body.size()));
  size_t sent = 0;
  while (sent < kHeader + body.size()) {
    std::array<iovec, 2> parts{};
    size_t count = 0;
    if (sent < kHeader) parts[count++] = {header.data() + sent, kHeader - sent};
    const size_t of_body = sent < kHeader ? 0 : sent - kHeader;
    if (of_body < body.size()) {
      parts[count++] = {const_cast<std::byte*>(body.data()) + of_body, body.size() - of_body};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t put = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) {
      sent += static_cast<size_t>(put);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Sent::kClosed;
    std::array<pollfd, 2> entries = {pollfd{.fd = socket_.get(), .events = POLLOUT, .revents = 0},
                                     pollfd{.fd = wake_fd, .events = POLLIN, .revents = 0}};
    ::poll(entries.data(), entries.size(), milliseconds_until(deadline));
    if (entries[1].revents != 0) return Sent::kWoken;
    if (entries[0].revents == 0 && Clock::now() >= deadline) return Sent::kLate;
  }
  return Sent::kAll;
}

// False: there is no more now.
bool RankLink::read_into(std::byte* to, size_t size, size_t& have) {
  while (have < size) {
    const ssize_t got = ::recv(socket_.get(), to + have, size - have, MSG_DONTWAIT);
    if (got > 0) {
      have += static_cast<size_t>(got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    closed_ = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    return false;
  }
  return true;
}

void RankLink::look_at_header() {
  const uint32_t kind = word_at(header_ + 4);
  const uint32_t size = word_at(header_ + 8);
  const bool ours = std::memcmp(header_, kMagic.data(), kMagic.size()) == 0;
  require(ours && kind >= 1 && kind <= kLastKind, "{} sent what is no message", who_);
  require(size <= most_body_, "{} sent a message of {} bytes; the most is {}", who_, size,
          most_body_);
  message_.kind = static_cast<LinkKind>(kind);
  message_.body.resize(size);
  body_have_ = 0;
}

std::optional<LinkMessage> RankLink::take() {
  if (header_have_ < kHeader) {
    const size_t before = header_have_;
    const bool all = read_into(header_, kHeader, header_have_);
    // Also of a header that has not all come: it never will be one.
    const size_t magic = std::min(header_have_, kMagic.size());
    require(header_have_ == before || std::memcmp(header_, kMagic.data(), magic) == 0,
            "{} sent what is no message", who_);
    if (!all) return std::nullopt;
    look_at_header();
  }
  if (!read_into(message_.body.data(), message_.body.size(), body_have_)) return std::nullopt;
  header_have_ = 0;
  return std::exchange(message_, {});
}

LinkPair make_link_pair() {
  std::array<int, 2> ends{};
  const bool made =
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0;
  require(made,
          "cannot make a socket for a rank: {}; raise the limit with 'ulimit -n', or start fewer "
          "ranks",
          std::strerror(errno));
  for (const int end : ends) {
    // Only advice: with less, a writer waits until the reader has read.
    ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof(kSocketBytes));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool wait_readable(int fd, milliseconds time) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, static_cast<int>(time.count())) > 0;
}

}  // namespace tessera::serve
