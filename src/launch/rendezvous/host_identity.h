// Which machine, and which part of it, a process runs on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tessera {

struct HostIdentity {
  std::string name;           // for people
  std::string boot;           // differs between machines, and after a reboot
  std::string pid_namespace;  // processes see each other's pids only inside one
  std::string net_namespace;  // and reach each other's local sockets only inside one

  bool operator==(const HostIdentity&) const = default;
  // Whether processes there can share memory and watch each other.
  [[nodiscard]] bool same_place(const HostIdentity& other) const {
    return boot == other.boot && pid_namespace == other.pid_namespace &&
           net_namespace == other.net_namespace;
  }
};

HostIdentity this_host();

// When a process was started, in clock ticks since boot: with the pid, it names a process for ever.
// None: there is no such process.
std::optional<uint64_t> start_time_of(pid_t pid);

}  // namespace tessera
