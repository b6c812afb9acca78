// One rank of a job in which something goes wrong, by name: mpi_failing_ranks CASE. Says what it
// learnt on standard output, as one line. mpi_failure_test.cc starts it and reads that.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_world.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeout{1'000};
constexpr int kOdd = 1;  // the rank that does something else

void say(int rank, const std::string& what) {
  // One write, so that lines of ranks do not mix.
  const std::string line = fmt::format("rank {}: {}\n", rank, what);
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(9);
}

void add_up(Communicator& group, int64_t count = 96) {
  std::vector<float> data(static_cast<size_t>(count), 1.0F);
  group.all_reduce(data.data(), count, DType::kF32);
}

using Part = std::function<void(CommWorld&, Communicator&)>;

void add_up_little(CommWorld&, Communicator& group) { add_up(group); }
// Large enough that it cannot be on its way as a whole before the receiver asks for it.
void add_up_much(CommWorld&, Communicator& group) { add_up(group, 1 << 22); }

void stay_away(CommWorld&, Communicator&) { std::this_thread::sleep_for(4 * kTimeout); }
void die(CommWorld&, Communicator&) { raise(SIGKILL); }

// Until something happens to the network.
void add_up_for_ever(CommWorld& world, Communicator& group) {
  for (int i = 0;; ++i) {
    add_up(group, 10'000);
    if (i == 20) say(world.rank(), "running");
  }
}

struct Case {
  Part odd;  // of one rank
  Part others = add_up_little;
};

const std::map<std::string, Case> kCases = {
    {"other_op", {[](CommWorld&, Communicator& group) {
       std::vector<float> full(96 * 3);
       group.all_gather(full.data() + 96, full.data(), 96, DType::kF32);
     }}},
    {"other_count", {[](CommWorld&, Communicator& group) { add_up(group, 95); }}},
    {"missing", {stay_away}},
    {"missing_large", {stay_away, add_up_much}},
    {"throws", {[](CommWorld&, Communicator&) { throw std::runtime_error("the disk is full"); }}},
    {"leaves", {[](CommWorld&, Communicator&) {}}},
    {"exits", {[](CommWorld&, Communicator&) { std::exit(0); }}},
    {"exits_with_3", {[](CommWorld&, Communicator&) { std::exit(3); }}},
    {"killed", {die}},
    {"killed_large", {die, add_up_much}},
    {"stopped", {[](CommWorld&, Communicator&) { raise(SIGSTOP); }}},
    {"runs", {add_up_for_ever, add_up_for_ever}},
};

// Returns what the application would exit with.
int run_rank(const Case& test, milliseconds start_timeout) {
  const auto world = make_mpi_world({.timeout = kTimeout, .start_timeout = start_timeout});
  try {
    const auto group = world->join_all("world");
    add_up(*group);
    const bool odd = world->rank() == kOdd;
    (odd ? test.odd : test.others)(*world, *group);
    if (odd) return 0;
    say(world->rank(), "no error");
  } catch (const CommError& error) {
    say(world->rank(), error.what());
  } catch (const std::exception& error) {
    world->abort(fmt::format("rank {}: {}", world->rank(), error.what()));
    say(world->rank(), error.what());
  }
  return 1;
}

// The world ends before the process does, as in an application.
int run_case(const std::string& name, milliseconds start_timeout) {
  try {
    return run_rank(kCases.at(name), start_timeout);
  } catch (const CommError& error) {  // it did not begin
    say(-1, error.what());
    return 1;
  }
}

// The launcher sets this; without it nobody is missing.
bool is_odd() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank != nullptr && std::atoi(rank) == kOdd;
}

}  // namespace
}  // namespace tessera

int main(int, char** argv) {
  const std::string name = argv[1];
  if (name == "does_not_start" && tessera::is_odd()) {
    std::this_thread::sleep_for(4 * tessera::kTimeout);
    return 0;
  }
  // MPI_Init can take a second: only where a rank stays away is the wait for it short.
  const bool all_start = name != "does_not_start";
  const int code = all_start ? tessera::run_case(name, std::chrono::seconds(20))
                             : tessera::run_case("leaves", tessera::kTimeout);
  if (code != 0) tessera::end_mpi_after_failure(code);
}
