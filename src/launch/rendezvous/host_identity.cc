#include "launch/rendezvous/host_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "launch/system_files.h"

namespace tessera {
namespace {

std::string link_target(const std::string& path) {
  std::error_code failure;
  return std::filesystem::read_symlink(path, failure).string();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

HostIdentity this_host() {
  return {.name = host_name(),
          .boot = first_line("/proc/sys/kernel/random/boot_id"),
          .pid_namespace = link_target("/proc/self/ns/pid"),
          .net_namespace = link_target("/proc/self/ns/net")};
}

std::optional<uint64_t> start_time_of(pid_t pid) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", pid));
  // The second field is the name in parentheses, which may itself hold spaces and parentheses.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  constexpr int kFieldsBeforeStart = 19;  // 3 … 21 of the line
  std::string field;
  for (int i = 0; i < kFieldsBeforeStart; ++i) {
    fields >> field;
    // A zombie is gone but for its exit code.
    if (i == 0 && field == "Z") return std::nullopt;
  }
  uint64_t start = 0;
  if (!(fields >> start)) return std::nullopt;
  return start;
}

}  // namespace tessera
