#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "launch/rank_list.h"
#include "spec/run_file/asynchronous.h"
#include "train/control.h"
#include "train/report/slow_rank.h"
#include "train/session/divergence.h"
#include "train/session/session_of_rank.h"
#include "train/state/replicas.h"
#include "train/weights/final_weights.h"

namespace tessera {
namespace {

std::string_view point_of(const Instruction& instruction) {
  if (is_communication(instruction.op)) return "step.collective";
  switch (instruction.tag.pass) {
    case Pass::kForward:
      return "step.forward";
    case Pass::kUpdate:
      return "step.update";
    default:
      return "step.backward";
  }
}

}  // namespace

// An overflow that a lower loss scale can cure, and a spike that the guard leaves out, cost a step,
// not the run.
void RankSession::settle(const StepParams& params, const StepOutcome& outcome) {
  skipped_.clear();
  if (outcome.overflowed() && scaler_.can_fall()) return scaler_.after_overflow();
  skipped_ = guard_.reason(params, outcome);
  if (skipped_.empty()) {
    if (!outcome.finite()) diverge(params, outcome);
    guard_.after_update(outcome);
    return scaler_.after_update();
  }
  guard_.after_skip(params, outcome);
  if (guard_.gives_up()) diverge(params, outcome);
  if (output_.has_value()) {
    output_->note(fmt::format("step {} changed nothing: {}", steps_done_ + 1, skipped_));
  }
}

// Which weights a run keeps whose next step is not finite, for the message. All ranks call it.
std::string RankSession::save_before_divergence() {
  if (is_asynchronous(spec_.parallel)) {
    return "stages have updated their weights within the step, so none were saved";
  }
  const bool finite = largest_of_ranks(control_, weights_are_finite(executor_) ? 0 : 1) == 0;
  if (steps_done_ == 0) {
    return fmt::format("{}no step was done, so no weights were saved",
                       finite ? "" : "the weights that it began with are not finite, and ");
  }
  if (!finite) {
    return fmt::format("the weights of step {} are not finite either, so none were saved",
                       steps_done_);
  }
  const std::string failure = save();
  if (!failure.empty()) return failure;
  return fmt::format("the weights of step {} are unchanged and saved in '{}'", steps_done_,
                     folder());
}

// Every rank comes here in the same step, because all see the same sums. Rank 0 speaks for all: the
// others wait until its words have ended the world, so that nobody leaves before they are said.
void RankSession::diverge(const StepParams& params, const StepOutcome& outcome) {
  const int64_t step = steps_done_ + 1;
  if (output_.has_value()) {
    output_->log({{"event", "nan"},
                  {"step", step},
                  {"time", unix_seconds()},
                  {"loss", outcome.loss},
                  {"grad_norm", outcome.grad_norm}});
  }
  std::optional<BadTensor> mine;
  if (!outcome.finite()) {
    fill_next(step);  // those of the step after it may be there already
    const Executor::Probe injected = injection_probe(options_.inject, executor_, step);
    mine = find_first_nonfinite(executor_, params, injected);
  }
  std::optional<FoundTensor> first;
  std::string weights;
  try {
    first = first_over_ranks(control_, mine);
    if (checkpoints_.has_value()) checkpoints_->finish();  // the last before it
    weights = save_before_divergence();
    if (world_.rank() != 0) control_.barrier();
  } catch (const CommError&) {
    if (world_.rank() == 0) throw;
    throw Error(world_.abort_reason(), ExitCode::kDiverged);
  }
  const int64_t skipped = guard_.gives_up() ? guard_.in_a_row() : 0;
  const bool scale_is_fixed = outcome.overflowed() && spec_.train.loss_scale > 0;
  throw Error(
      fmt::format("numeric divergence at step {}: {}; {}, try {}", step,
                  describe_divergence(first, outcome, skipped, job_.step.mesh), weights,
                  scale_is_fixed ? "train.loss_scale = 0, which adapts" : "a lower optimizer.lr"),
      ExitCode::kDiverged);
}

// What is to happen between the instructions of a step; usually nothing.
Executor::Probe RankSession::probe_of(int64_t step) {
  Executor::Probe injected = injection_probe(options_.inject, executor_, step);
  if (!failpoints_.armed("step.", step)) return injected;
  return [this, step, injected = std::move(injected)](size_t index, const Instruction& i) {
    if (injected) injected(index, i);
    failpoints_.pass(point_of(i), step);
  };
}

// Times of a GPU's kernels are not the host's.
void RankSession::look_for_slow_rank() {
  if (step_compute_ms_.size() < kSlowWindow) return;
  const std::vector<double> mine = std::exchange(step_compute_ms_, {});
  if (world_.size() == 1 || spec_.train.device == TrainDevice::kCuda) return;
  std::vector<std::vector<double>> compute_ms;
  for (const std::string& text : exchange_texts(control_, nlohmann::json(mine).dump())) {
    compute_ms.push_back(nlohmann::json::parse(text).get<std::vector<double>>());
  }
  const std::optional<Straggler> slow = find_slow_rank(job_.step.mesh, compute_ms);
  const int rank = slow ? slow->rank : -1;
  if (!output_.has_value() || rank == std::exchange(slow_rank_, rank) || !slow) return;
  output_->note(fmt::format(
      "rank {} is slow: {:.3g} ms of its own in a step, where {:.3g} ms are usual; all wait for it",
      rank, slow->compute_ms, slow->median_ms));
  output_->event({{"event", "verdict"},
                  {"verdict", "slow"},
                  {"rank", rank},
                  {"generation", options_.generation},
                  {"phase", "step"},
                  {"step", steps_done_},
                  {"compute_ms", slow->compute_ms},
                  {"median_ms", slow->median_ms}});
}

// A high bit of the mantissa of a weight near the loss, so that all gradients notice.
void RankSession::flip_a_bit() {
  const std::vector<BucketBuffers>& buckets = executor_.program().buckets;
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    if (bucket->weights == kNoBuffer) continue;
    executor_.edit(bucket->weights, [](const Tensor& contents) {
      auto* bytes = static_cast<unsigned char*>(contents.data);
      bytes[size_bytes(contents.dtype) - 2] ^= 0x20U;
    });
    return;
  }
}

// Every rank sees the same hashes. The odd one speaks, and ends the world; the others wait until it
// has.
void RankSession::compare_replicas(int64_t step) {
  if (std::exchange(compared_step_, step) == step) return;
  std::vector<std::vector<HeldState>> held;
  for (const std::string& text :
       exchange_texts(control_, text_of(hash_state(executor_, job_.step)))) {
    held.push_back(parse_held_state(text));
  }
  const std::optional<ReplicaDifference> difference = find_difference(held);
  if (!difference) return;
  if (output_.has_value()) {
    output_->event({{"event", "verdict"},
                    {"verdict", "corrupt"},
                    {"rank", difference->odd.front()},
                    {"ranks", difference->odd},
                    {"majority", difference->majority},
                    {"generation", options_.generation},
                    {"phase", "step"},
                    {"step", step},
                    {"what", difference->what}});
  }
  const std::string text = fmt::format(
      "after step {} its '{}' is not that of the other {} that hold it: an error of "
      "its memory or its processor",
      step, difference->what, difference->holders.size() - difference->odd.size());
  if (world_.rank() == difference->odd.front()) {
    require(!difference->majority, "{}", text);
    const std::string all = fmt::format(
        "after step {} {} hold different bytes of '{}', and there is no majority: an error of "
        "the memory or the processor of one of them",
        step, rank_list(difference->odd), difference->what);
    world_.abort(all);
    throw Error(all);
  }
  control_.barrier();
}

}  // namespace tessera
