#include "launch/agent/spares.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kSocket = "TESSERA_SPARE_FD";
constexpr std::string_view kOurs = "TESSERA_";  // variables that make the role
constexpr size_t kMostBytes = size_t{64} << 10;
constexpr size_t kDescriptors = 4;  // the memory, and three streams
constexpr std::chrono::milliseconds kDieTime{2'000};

struct Parcel {
  std::array<int, kDescriptors> descriptors{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(descriptors))> control{};
  iovec text{};
  msghdr message{};

  Parcel(char* bytes, size_t size) : text{bytes, size} {
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
};

bool send_role(int socket, const SpawnRequest& role) {
  std::string text;
  for (const auto& [name, value] : role.environment) {
    if (name.starts_with(kOurs)) text += name + "=" + value + '\0';
  }
  Parcel parcel(text.data(), text.size());
  parcel.descriptors = {role.inherited_fd, role.stdin_fd, role.stdout_fd, role.stderr_fd};
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(parcel.descriptors));
  std::memcpy(CMSG_DATA(header), parcel.descriptors.data(), sizeof(parcel.descriptors));
  return ::sendmsg(socket, &parcel.message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(text.size());
}

void use_descriptors(std::array<int, kDescriptors>& descriptors) {
  for (size_t stream = 0; stream < 3; ++stream) {
    const int fd = descriptors[stream + 1];
    require(::dup2(fd, static_cast<int>(stream)) >= 0, "a spare cannot use its streams: {}",
            std::strerror(errno));
    ::close(fd);
  }
}

void reap_soon(pid_t pid) {
  const auto deadline = Clock::now() + kDieTime;
  while (::waitpid(pid, nullptr, WNOHANG) == 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

SparePool::~SparePool() {
  for (const Spare& spare : spares_) ::kill(spare.pid, SIGKILL);
  for (const Spare& spare : spares_) reap_soon(spare.pid);
}

void SparePool::fill(int wanted, const SpawnRequest& like) {
  while (static_cast<int>(spares_.size()) < wanted) {
    int ends[2];
    const bool made = ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0;
    require(made, "cannot make a socket for a spare: {}", std::strerror(errno));
    Spare spare;
    spare.socket = UniqueFd(ends[0]);
    const UniqueFd theirs(ends[1]);
    const UniqueFd no_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    SpawnRequest request = like;
    request.name = "a spare";
    request.environment.insert_or_assign(std::string(kSocket), std::to_string(theirs.get()));
    request.stdin_fd = no_input.get();
    request.inherited_fd = theirs.get();
    spare.pid = spawn_child(request);
    spares_.push_back(std::move(spare));
  }
}

std::optional<pid_t> SparePool::take(const SpawnRequest& role) {
  while (!spares_.empty()) {
    Spare spare = std::move(spares_.front());
    spares_.erase(spares_.begin());
    if (send_role(spare.socket.get(), role)) {
      cpu_set_t cpus;
      CPU_ZERO(&cpus);
      for (const int cpu : role.cpus) CPU_SET(static_cast<size_t>(cpu), &cpus);
      // Refused where the allowed cores have changed: an unpinned rank is no error.
      if (!role.cpus.empty()) ::sched_setaffinity(spare.pid, sizeof(cpus), &cpus);
      return spare.pid;
    }
    ::kill(spare.pid, SIGKILL);  // it has died, or does not listen
    reap_soon(spare.pid);
  }
  return std::nullopt;
}

void SparePool::add_to(PollSet& set) {
  for (Spare& spare : spares_) spare.slot = set.add(spare.socket.get(), POLLIN);
}

// A spare never writes: its socket is ready when its end of it has closed.
std::vector<pid_t> SparePool::reap(const PollSet& set) {
  std::vector<pid_t> died;
  std::erase_if(spares_, [&](const Spare& spare) {
    if (!set.ready(spare.slot)) return false;
    ::kill(spare.pid, SIGKILL);
    reap_soon(spare.pid);
    died.push_back(spare.pid);
    return true;
  });
  return died;
}

std::optional<Environment> take_role(const Environment& environment) {
  const auto told = environment.find(kSocket);
  if (told == environment.end()) return environment;
  int fd = -1;
  std::from_chars(told->second.data(), told->second.data() + told->second.size(), fd);
  const UniqueFd socket(fd);
  std::string text(kMostBytes, '\0');
  Parcel parcel(text.data(), text.size());
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket.get(), &parcel.message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  require(got >= 0, "{} is {}: only 'tessera train --spares' sets it", kSocket,
          in_quotes(told->second));
  if (got == 0) return std::nullopt;
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  const bool whole = header != nullptr && header->cmsg_type == SCM_RIGHTS &&
                     header->cmsg_len == CMSG_LEN(sizeof(parcel.descriptors)) &&
                     (parcel.message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  require(whole, "a spare got half of its role: is the limit on open files ('ulimit -n') reached?");
  std::memcpy(parcel.descriptors.data(), CMSG_DATA(header), sizeof(parcel.descriptors));
  use_descriptors(parcel.descriptors);

  Environment role = environment;
  std::erase_if(role, [](const auto& variable) { return variable.first.starts_with(kOurs); });
  text.resize(static_cast<size_t>(got));
  for (const std::string_view variable : split(text, '\0')) {
    const size_t equals = variable.find('=');
    if (equals == std::string_view::npos) continue;
    role.insert_or_assign(std::string(variable.substr(0, equals)),
                          std::string(variable.substr(equals + 1)));
  }
  role.insert_or_assign(std::string(agent_variable::kMemory),
                        std::to_string(parcel.descriptors[0]));
  return role;
}

}  // namespace tessera
