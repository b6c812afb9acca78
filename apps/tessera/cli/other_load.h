// Who else used the machine while something was measured on it: a measurement beside other work
// says little.
#pragma once

#include <istream>
#include <string>

namespace tessera {

// Ticks that the cores of /proc/stat worked or were taken away by a host, all together.
double busy_ticks(std::istream& proc_stat);

// What to say about others that used so many cores; empty where that is little.
std::string load_warning(double others_cores);

class OtherLoad {
 public:
  OtherLoad() : start_(now()) {}

  // Cores that others, this process and its children apart, had on average since the start; what
  // the host of a virtual machine took away counts too. 0 where the system does not say.
  [[nodiscard]] double cores() const;

 private:
  struct Usage {
    double machine_s = 0;  // that cores worked or were taken away
    double own_s = 0;
    double clock_s = 0;
  };
  static Usage now();

  Usage start_;
};

}  // namespace tessera
