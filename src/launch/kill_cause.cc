#include "launch/kill_cause.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"

namespace tessera {
namespace {

// From here on what was planned, and what no plan has (code, libraries, the page cache), may not
// have found room together.
constexpr double kNearlyAll = 0.9;

bool is_near_limit(const KillFacts& facts) {
  const int64_t room = std::min(facts.memory.total_bytes, facts.memory.available_bytes);
  return static_cast<double>(facts.planned_bytes) >= kNearlyAll * static_cast<double>(room);
}

}  // namespace

std::string kill_cause(const KillFacts& facts) {
  const std::string numbers =
      fmt::format("planned {}, {} has {}", human_bytes(facts.planned_bytes),
                  facts.memory.group.empty() ? "the machine" : "its control group",
                  human_bytes(facts.memory.total_bytes));
  const MemoryKills kills = facts.meanwhile.value_or(MemoryKills{});
  if (kills.group > 0) {
    return fmt::format("out of memory: meanwhile the kernel ended {} of its control group; {}",
                       count_of(kills.group, "process"), numbers);
  }
  if (kills.machine > 0) {
    return fmt::format("probably out of memory: meanwhile the kernel ended {} for want of it; {}",
                       count_of(kills.machine, "process"), numbers);
  }
  if (is_near_limit(facts)) return "probably out of memory: " + numbers;
  if (!facts.meanwhile) return numbers + "; dmesg says whether memory ran out";
  return "not by the kernel for want of memory (" + numbers +
         "): another process did it; journalctl or the log of the batch system may say which";
}

}  // namespace tessera
