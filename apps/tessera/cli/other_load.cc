#include "cli/other_load.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace tessera {
namespace {

constexpr double kLittle = 0.05;  // cores: what an idle system does for itself

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double own_seconds(int who) {
  rusage usage = {};
  getrusage(who, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

double machine_seconds() {
  std::ifstream file("/proc/stat");
  return busy_ticks(file) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

// "cpu user nice system idle iowait irq softirq steal …", of all cores together.
double busy_ticks(std::istream& proc_stat) {
  std::string label;
  proc_stat >> label;
  double ticks = 0;
  for (const bool busy : {true, true, true, false, false, true, true, true}) {
    double value = 0;
    if (proc_stat >> value && busy) ticks += value;
  }
  return ticks;
}

std::string load_warning(double others_cores) {
  if (others_cores <= kLittle) return "";
  return fmt::format("others used {:.2f} cores meanwhile: measure again on an idle machine",
                     others_cores);
}

OtherLoad::Usage OtherLoad::now() {
  using Clock = std::chrono::steady_clock;
  return {machine_seconds(), own_seconds(RUSAGE_SELF) + own_seconds(RUSAGE_CHILDREN),
          std::chrono::duration<double>(Clock::now().time_since_epoch()).count()};
}

double OtherLoad::cores() const {
  const Usage end = now();
  const double others = (end.machine_s - start_.machine_s) - (end.own_s - start_.own_s);
  return std::max(0.0, others / std::max(1e-3, end.clock_s - start_.clock_s));
}

}  // namespace tessera
