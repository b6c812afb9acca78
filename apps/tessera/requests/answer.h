// Answers of the command line to requests, in a folder of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "in_process.h"
#include "requests/random_request.h"

namespace tessera::testing {

struct Answer : Ended {
  std::map<std::string, std::string> written;  // files, by path
  double cpu_s = 0;                            // that it took
  int64_t peak_bytes = 0;                      // that the process held meanwhile
};

// A temporary folder that is the current one as long as this lives.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  // Leaves the folder empty.
  Answer ask(const Request& request) const;

 private:
  std::filesystem::path before_, folder_;
};

// JSON that a command printed, without what the command line alone has: no method predicts how long
// serving takes.
std::string as_method(const std::string& printed);

// Everything that was answered, without time and memory.
std::string bytes_of(const Answer& answer);

// Empty, or what no answer may be: an undocumented exit code, a failure without a message, a bug
// that it reports itself, NaN, JSON that does not parse, a picture that is none, more
// than 5 s of processor time (a search: 20) or than 1 GiB.
std::string complaint(const Request& request, const Answer& answer);

// As typed after "tessera", with its files: to try it again.
std::string text_of(const Request& request);

}  // namespace tessera::testing
