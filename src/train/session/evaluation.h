// [eval] while a run trains: the Program of the run, told to change nothing, on samples that it is
// not trained on. No memory beside the planned, and on every mesh what one rank would compute.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/samples/held_out.h"

namespace tessera {

struct SetLoss {
  std::string name;   // empty: it is the only one
  double loss = 0;    // the mean over its tokens
  double tokens = 0;  // that carry loss
};

// The mean over the tokens of all sets.
double loss_of_all(const std::vector<SetLoss>& sets);

// "valid_loss" and "valid_perplexity" of all, and "valid" with "NAME.loss" and "NAME.perplexity" of
// every set that has a name: a line of metrics.jsonl, and summary.json. Without sets nothing.
void add_losses(const std::vector<SetLoss>& sets, nlohmann::ordered_json& json);

class Evaluation {
 public:
  // Both must outlive it.
  Evaluation(const RunSpec& spec, const std::vector<HeldOut>& sets) : spec_(spec), sets_(sets) {}

  // Whether step `step` ends with one.
  [[nodiscard]] bool due_after(int64_t step) const;
  // All ranks call it. The inputs of `executor` are those of the evaluation afterwards.
  void run(Executor& executor, Communicator& control);

  [[nodiscard]] const std::vector<SetLoss>& last() const { return last_; }  // empty: none yet
  [[nodiscard]] int64_t passes() const { return passes_; }   // of the Program, in all
  [[nodiscard]] double seconds() const { return seconds_; }  // in all

 private:
  [[nodiscard]] SetLoss measure(const HeldOut& set, Executor& executor);

  const RunSpec& spec_;
  const std::vector<HeldOut>& sets_;
  std::vector<SetLoss> last_;
  int64_t passes_ = 0;
  double seconds_ = 0;
};

}  // namespace tessera
