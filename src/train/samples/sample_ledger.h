// Which samples a run has read, as one number: the sum over them of a mix of their numbers. A
// sample that was left out or read twice changes it; order, mesh and restarts do not.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "train/samples/batch.h"

namespace tessera {

class SampleLedger {
 public:
  // A sample is counted by the rank that reads its first rows on the first stage; by the first of
  // two groups that compute the same (train.redundancy).
  SampleLedger(const RunSpec& spec, const Program& program);

  // `source`, with a note of every sample that is read for `step` from now on. What was noted for
  // that step before is forgotten: its inputs are filled once more. The ledger must outlive it.
  [[nodiscard]] SampleSource watch(const SampleSource& source, int64_t step);
  // The step was done with what was read for it last.
  void count(int64_t step);

  // Over all ranks, which call it together: 16 hexadecimal digits; empty where the checkpoint that
  // the run goes on from does not know.
  [[nodiscard]] std::string total(Communicator& control) const;
  // Goes on from what total() gave. Throws Error where it is something else.
  void restore(const nlohmann::json& state);

 private:
  struct Pending {
    int64_t step = 0;
    uint64_t sum = 0;
  };
  bool counts_;
  std::optional<uint64_t> before_ = 0;  // of the whole run, when this process went on with it
  uint64_t mine_ = 0;                   // of this rank, since then
  std::array<Pending, 2> pending_{};    // inputs of the next step may be there while one runs
};

}  // namespace tessera
