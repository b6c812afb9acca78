#include "train/verify/forward.h"

#include <algorithm>
#include <utility>

#include "compile/model/context.h"
#include "tensor/element.h"
#include "train/machine_defaults.h"
#include "train/weights/stored_tensors.h"
#include "train/weights/weights.h"

namespace tessera {

std::vector<double> forward_logits(const RunSpec& spec, int64_t batch,
                                   const SampleSource& samples) {
  StepGraph step = build_step(spec, StepKind::kForward);
  // Before memory is taken for a model that the folder may not be of.
  const TensorSource weights = hf_weights(spec.model.hf, step.layout);
  World world(std::move(step));
  const int64_t vocab = spec.model.vocab;
  const int64_t seq_len = spec.train.seq_len;
  std::vector<double> logits(static_cast<size_t>(batch * seq_len * vocab));
  world.run([&](int rank, Executor& executor) {
    load_weights(executor, world.step(), weights);
    const Program& program = executor.program();
    const int64_t replica = program.mesh.position(rank, sample_axes());
    const int64_t first = replica * spec.train.micro_batch;
    const SequenceRows rows = held_rows(spec, program.mesh, rank);
    std::vector<int32_t> whole(static_cast<size_t>(seq_len));
    std::vector<int32_t> unused(whole.size());
    int32_t* tokens = executor.input(program.tokens);
    for (int64_t j = 0; j < spec.train.micro_batch; ++j) {
      samples(first + j, whole, unused);
      for (int64_t i = 0; i < rows.length(); ++i) {
        tokens[j * rows.length() + i] = whole[static_cast<size_t>(rows.position(i))];
      }
    }
    executor.run({});
    const HostView view = executor.view(program.logits);
    const Tensor& mine = view.tensor;
    const int64_t first_row = program.mesh.coord(rank, Axis::kTp) * mine.dim(1);
    for (int64_t t = 0; t < mine.dim(0); ++t) {
      const int64_t row = (first + t / rows.length()) * seq_len + rows.position(t % rows.length());
      if (row >= batch * seq_len) continue;
      for (int64_t v = 0; v < std::min(mine.dim(1), vocab - first_row); ++v) {
        logits[static_cast<size_t>(row * vocab + first_row + v)] =
            read_element(mine, t * mine.dim(1) + v);
      }
    }
  });
  return logits;
}

}  // namespace tessera
