// `tessera data prepare` and `tessera data check`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "data/prepare/prepare.h"

namespace tessera {

struct DataPrepareOptions {
  PrepareOptions prepare;
  std::string format = "tessera";
  std::string separator;  // with \n and the like as people write them
  bool no_special = false;
  bool json = false;
};
struct DataCheckOptions {
  std::string set;
  int64_t vocab = 0;  // 0: the set's own
  bool json = false;
};
// Under `tessera data`.
Command add_data_check(CLI::App& data);
std::vector<Command> add_set_commands(CLI::App& data);
int run_data_prepare(const DataPrepareOptions& options, Console& console);
int run_data_check(const DataCheckOptions& options, Console& console);

}  // namespace tessera
