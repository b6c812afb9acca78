// One case on one rank: fills the buffers, makes the call, checks every byte that may and that may
// not have changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/testing/suite_case.h"
#include "comm/testing/suite_rank.h"

namespace tessera::testing {

class CaseRun {
 public:
  // All three must outlive the run.
  CaseRun(SuiteRank& suite, Communicator& group, const SuiteCase& c);

  // Blocking or not, as the case says; then check().
  void run();

  void start();
  [[nodiscard]] bool test();
  void wait();
  void check();

 private:
  // A buffer between guards.
  struct Block {
    std::byte* data = nullptr;
    int64_t size_bytes = 0;
  };
  Block take(int64_t count, int which);
  void lay_out();
  void fill();
  [[nodiscard]] CollectiveCall call() const;
  [[nodiscard]] CollectiveCall receive_call() const;
  void check_output();
  void check_input();
  void check_guards(const Block& block, const char* which);
  void fail(const std::string& what);
  // The elements of rank `source` begin here in its pattern, so that no two cases exchange the
  // same bytes.
  [[nodiscard]] int64_t shift() const;
  [[nodiscard]] const Pattern& contribution(int source);

  SuiteRank& suite_;
  Communicator& group_;
  const SuiteCase& case_;
  int64_t width_;
  int64_t in_count_;
  int64_t out_count_;
  std::vector<Block> blocks_;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::vector<int64_t> send_counts_;
  std::vector<int64_t> receive_counts_;
  Work work_;
  Work receive_;  // of an exchange
};

// The largest that a case takes from one pool of buffers.
int64_t buffer_bytes(const SuiteCase& c, int size);

}  // namespace tessera::testing
