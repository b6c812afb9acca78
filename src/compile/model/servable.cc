#include "compile/model/servable.h"

#include <bit>

#include "base/error.h"

namespace tessera {
namespace {

void require_mesh(const ParallelSpec& parallel) {
  const auto refuse = [](const char* axis, int64_t ranks, const char* instead) {
    require_config(ranks == 1, "{} = {}: serving splits a model over tp and pp alone; {}", axis,
                   ranks, instead);
  };
  refuse("cp", parallel.cp, "use tp, which splits the cache by heads, or pp, by layers");
  refuse("fsdp", parallel.fsdp, "use tp or pp: weights stay where they are used");
  refuse("dp", parallel.dp, "start one server for each replica");
  require_config(parallel.zero <= 0,
                 "zero = {}: serving keeps neither gradients nor an optimizer; leave it out",
                 parallel.zero);
  require_config(
      !parallel.sequence_parallel,
      "sequence_parallel = true: serving keeps the tokens of a step whole; leave it out");
}

}  // namespace

void require_servable(const RunSpec& spec, const ServeStep& shape) {
  require_mesh(spec.parallel);
  require_config(spec.train.device == TrainDevice::kCpu,
                 "serving on a GPU is not there yet; use device = \"cpu\"");
  require_config(spec.train.dtype != DType::kF16,
                 "serving in f16 is not there: its sums overflow; use bf16 or f32");
  const auto size = static_cast<uint64_t>(shape.page_size);
  require_config(shape.page_size >= 1 && shape.page_size <= 1024 && std::has_single_bit(size),
                 "a page of {} tokens: use 8, 16, 32, 64 or another power of two up to 1024",
                 shape.page_size);
  TESSERA_CHECK(
      shape.tokens > 0 && shape.rows > 0 && shape.rows <= shape.tokens && shape.sequences > 0 &&
          shape.sequences <= shape.tokens && shape.num_pages > 0 && shape.pages_per_sequence > 0,
      "a step of {} tokens, {} rows, {} sequences of {} pages, {} pages in all", shape.tokens,
      shape.rows, shape.sequences, shape.pages_per_sequence, shape.num_pages);
  TESSERA_CHECK(spec.model.experts == 0 || shape.tokens % spec.parallel.tp == 0,
                "{} tokens are dealt to {} ranks of experts", shape.tokens, spec.parallel.tp);
}

}  // namespace tessera
