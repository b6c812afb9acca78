// Asks the command line random requests and prints its answers: tools/compare_compilers.sh builds
// it with two compilers and compares the bytes. Complaints go to standard error, and make the exit
// code 1.
// Usage: requests [COUNT] [SEED] [--quiet|--calls]
//   --quiet   only complaints, and the slowest
//   --calls   COUNT lines of requests/call_line.h instead, of those that are calls
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "requests/answer.h"
#include "requests/call_line.h"

namespace tessera::testing {
namespace {

int ask(int count, uint64_t seed, bool quiet) {
  const Workplace workplace;
  int complaints = 0;
  double slowest_s = 0;
  int64_t most_bytes = 0;
  std::string slowest;
  for (int i = 0; i < count; ++i) {
    Dice dice(seed + static_cast<uint64_t>(i));
    const Request request = random_request(dice);
    const Answer answer = workplace.ask(request);
    const std::string wrong = complaint(request, answer);
    if (!wrong.empty()) {
      ++complaints;
      std::fprintf(stderr, "==== %llu: %s\n%s\n%s\n",
                   static_cast<unsigned long long>(seed) + static_cast<unsigned long long>(i),
                   wrong.c_str(), text_of(request).c_str(), answer.err.c_str());
    }
    if (answer.cpu_s > slowest_s) {
      slowest_s = answer.cpu_s;
      slowest = text_of(request);
    }
    most_bytes = std::max(most_bytes, answer.peak_bytes);
    if (!quiet) std::printf("%s\n%s\n", text_of(request).c_str(), bytes_of(answer).c_str());
  }
  std::fprintf(stderr,
               "%d requests, %d complaints; the slowest took %.2f s, the largest %lld MiB\n", count,
               complaints, slowest_s, static_cast<long long>(most_bytes >> 20));
  if (quiet) std::fprintf(stderr, "%s\n", slowest.c_str());
  return complaints == 0 ? 0 : 1;
}

int print_calls(int count, uint64_t seed) {
  const Workplace workplace;
  for (int printed = 0; printed < count; ++seed) {
    Dice dice(seed);
    const auto line = call_line(random_request(dice), workplace);
    if (!line.has_value()) continue;
    std::printf("%s\n", line->dump().c_str());
    ++printed;
  }
  return 0;
}

// Takes `word` out of `words`: whether it was there.
bool take(std::vector<std::string>& words, const char* word) { return std::erase(words, word) > 0; }

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool quiet = tessera::testing::take(words, "--quiet");
  const bool calls = tessera::testing::take(words, "--calls");
  const int count = words.empty() ? 2000 : std::atoi(words[0].c_str());
  const uint64_t seed = words.size() < 2 ? 1 : std::strtoull(words[1].c_str(), nullptr, 10);
  if (calls) return tessera::testing::print_calls(count, seed);
  return tessera::testing::ask(count, seed, quiet);
}
