#include "compile/model/limits.h"

#include <algorithm>

#include "base/error.h"
#include "compile/model/loss_chunks.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Those of a block and a micro-batch: forward, backward, what is computed again, casts and the
// update.
double instructions_of_block(const RunSpec& spec) {
  const bool ring = spec.parallel.cp > 1 && spec.parallel.cp_kind == ContextKind::kRing;
  const double hops = ring ? static_cast<double>(spec.parallel.cp) : 0;
  const double quantised = spec.train.fp8.on() ? 96 : 0;
  return (spec.model.experts > 0 ? 96 : 64) + 16 * hops + quantised;
}
constexpr double kInstructionsOfLossChunk = 8;

double instructions_of_micro_batch(const RunSpec& spec, int64_t loss_chunks) {
  return static_cast<double>(spec.model.layers) * instructions_of_block(spec) +
         static_cast<double>(loss_chunks) * kInstructionsOfLossChunk;
}

}  // namespace

double estimated_instructions(const RunSpec& spec, double places) {
  return places * static_cast<double>(accumulation(spec)) *
         instructions_of_micro_batch(spec, loss_chunks(spec));
}

double estimated_work(const RunSpec& spec, double places, int64_t loss_chunks) {
  constexpr double kOfNode = 4;
  return (places * static_cast<double>(accumulation(spec)) + kOfNode) *
         instructions_of_micro_batch(spec, loss_chunks);
}

bool cp_ranks_do_the_same(const RunSpec& spec) {
  return spec.parallel.cp == 1 || spec.model.sliding_window == 0 ||
         spec.parallel.cp_kind == ContextKind::kUlysses;
}

std::string why_not_simulatable(const RunSpec& spec) {
  const double on_cp = cp_ranks_do_the_same(spec) ? 1 : static_cast<double>(spec.parallel.cp);
  const auto on_tp = static_cast<double>(std::min<int64_t>(2, spec.parallel.tp));
  const double work = estimated_work(spec, on_cp * on_tp, loss_chunks(spec));
  if (work > kMostSimulatedWork) {
    return fmt::format(
        "a step of {} layers, {} micro-batches and {} chunks of the loss in each has about {:.3g} "
        "instructions to build and simulate, more than the {:.0f} that are",
        spec.model.layers, accumulation(spec), loss_chunks(spec), work, kMostSimulatedWork);
  }
  constexpr double kMostFlops = 0x1p62;
  const auto as_double = [](int64_t number) { return static_cast<double>(number); };
  const double seq_len = as_double(spec.train.seq_len);
  const double flops = 10 * as_double(spec.train.micro_batch) * seq_len * seq_len *
                       as_double(spec.model.heads) * as_double(spec.model.head_dim);
  if (flops <= kMostFlops) return "";
  return fmt::format(
      "attention over train.seq_len = {} needs {:.3g} operations in a micro-batch, more than are "
      "counted",
      spec.train.seq_len, flops);
}

void require_simulatable(const RunSpec& spec) {
  const std::string why = why_not_simulatable(spec);
  require_config(why.empty(),
                 "{}; use a smaller global_batch, fewer layers, a larger train.loss_chunk or a "
                 "shorter seq_len. 'tessera plan --cluster' prices steps of any size, "
                 "--schedule-only shows the pipeline alone",
                 why);
}

void require_writable_graph(const RunSpec& spec) {
  require_config(spec.model.layers <= kMaxBlocks,
                 "model.layers = {} is more than the {} blocks that a program is written for; use "
                 "fewer layers, or 'tessera explain' for figures without a program",
                 spec.model.layers, kMaxBlocks);
}

void require_writable_programs(const RunSpec& spec) {
  // As doubles: the factors may be large.
  const double passes = static_cast<double>(spec.model.layers) *
                        static_cast<double>(accumulation(spec)) *
                        static_cast<double>(spec.parallel.world() / spec.parallel.pp);
  require_config(passes <= static_cast<double>(kMaxBlockPasses),
                 "the programs of {} ranks would go through {:.3g} blocks and micro-batches, more "
                 "than {} can be written down; use fewer ranks or layers, a larger micro_batch, or "
                 "a smaller global_batch",
                 spec.parallel.world(), passes, kMaxBlockPasses);
}

}  // namespace tessera
