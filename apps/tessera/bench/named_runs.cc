#include "bench/named_runs.h"

#include <sstream>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/read_text.h"

namespace tessera {

std::vector<NamedRun> read_named_runs(const std::string& file) {
  std::vector<NamedRun> runs;
  std::istringstream lines(read_text(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = std::string(trim(line.substr(0, line.find('#'))));
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    require_config(colon != std::string::npos && colon > 0,
                   "{}:{}: write NAME: section.key=value …, got '{}'", file, number, line);
    NamedRun run{line.substr(0, colon), {}};
    run.source.may_lack_file = true;
    run.source.file = "";
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) run.source.overrides.push_back(word);
    runs.push_back(std::move(run));
  }
  require_config(!runs.empty(), "{} names no run: write NAME: section.key=value …", file);
  return runs;
}

}  // namespace tessera
