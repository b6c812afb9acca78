#include "train/samples/batch.h"

#include <algorithm>

#include "base/error.h"
#include "compile/model/context.h"
#include "data/documents.h"
#include "spec/run_file/lanes.h"
#include "train/samples/chat_samples.h"
#include "train/samples/run_sets.h"

namespace tessera {

SampleSource text_samples(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  if (data.is_sets()) {
    const auto samples = std::make_shared<SetSamples>(training_sets(spec), spec.train.seq_len,
                                                      spec.train.seed, spec.model.vocab);
    return [samples](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
      samples->fill(sample, tokens, labels);
    };
  }
  auto corpus = std::make_shared<Corpus>(data.path.empty()
                                             ? Corpus::synthetic(data.synth_seed, data.synth_bytes)
                                             : Corpus::from_path(data.path));
  require_config(corpus->vocab() <= spec.model.vocab,
                 "model.vocab is {} but the data has {} byte-level tokens: use vocab >= {}",
                 spec.model.vocab, corpus->vocab(), corpus->vocab());
  require_samples(*corpus, spec.train.seq_len);
  const auto sampler =
      std::make_shared<Sampler>(corpus->size(), spec.train.seq_len, spec.train.seed);
  return [corpus, sampler](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    fill_sample(*corpus, *sampler, sample, tokens, labels);
  };
}

Samples training_samples(const RunSpec& spec) {
  if (spec.data.chats.empty()) return {text_samples(spec), {}};
  return chat_samples(spec);
}

namespace {

// Where the document of every query of one sequence begins, in the rows of the rank's attention.
void place_starts(std::span<const int32_t> of_positions, const SequenceRows& rows, int64_t sequence,
                  int64_t sequences, int32_t* starts) {
  for (int64_t c = 0; c < rows.num_chunks(); ++c) {
    const int32_t* from = of_positions.data() + rows.first_position(c);
    std::copy_n(from, rows.chunk_len(), starts + rows.first_row(c, sequence, sequences));
  }
}

}  // namespace

void fill_inputs(Executor& executor, const RunSpec& spec, int64_t step, const SampleSource& source,
                 const StartsSource& starts_of) {
  const Program& program = executor.program();
  const Mesh& mesh = program.mesh;
  const int64_t replica = mesh.position(program.rank, sample_axes());
  const int64_t micro_batch = spec.train.micro_batch;
  const ReplicaBatch batch = replica_batch(spec, replica);
  const SequenceRows rows = held_rows(spec, mesh, program.rank);
  std::vector<int32_t> whole_tokens(static_cast<size_t>(spec.train.seq_len));
  std::vector<int32_t> whole_labels(whole_tokens.size());
  const SequenceRows attending = attending_rows(spec, mesh, program.rank);
  std::vector<int32_t> whole_starts(whole_tokens.size());
  const int64_t first = (step - 1) * spec.train.global_batch;
  // Only the first stage of a pipeline reads tokens, only the last one labels.
  if (program.tokens == kNoBuffer && program.labels == kNoBuffer &&
      program.document_starts == kNoBuffer) {
    return;
  }
  const auto buffer = [&](BufferId id) { return id == kNoBuffer ? nullptr : executor.input(id); };
  int32_t* tokens = buffer(program.tokens);
  int32_t* labels = buffer(program.labels);
  int32_t* starts = buffer(program.document_starts);
  for (int64_t m = 0; m < program.micro_batches; ++m) {
    for (int64_t j = 0; j < micro_batch; ++j) {
      const int64_t sample = first + batch.number_of(m) * micro_batch + j;
      if (batch.is_padding(m)) {
        std::fill(whole_tokens.begin(), whole_tokens.end(), 0);
        std::fill(whole_labels.begin(), whole_labels.end(), kMaskedLabel);
      } else {
        source(sample, whole_tokens, whole_labels);
      }
      const int64_t first_row = (m * micro_batch + j) * rows.length();
      for (int64_t i = 0; i < rows.length(); ++i) {
        const auto position = static_cast<size_t>(rows.position(i));
        if (tokens != nullptr) tokens[first_row + i] = whole_tokens[position];
        if (labels != nullptr) labels[first_row + i] = whole_labels[position];
      }
      if (starts == nullptr) continue;
      if (batch.is_padding(m)) {
        std::fill(whole_starts.begin(), whole_starts.end(), 0);
      } else if (starts_of) {
        starts_of(sample, whole_starts);
      } else {
        find_document_starts(whole_tokens, static_cast<int32_t>(spec.data.end_token), whole_starts);
      }
      place_starts(whole_starts, attending, j, micro_batch,
                   starts + m * micro_batch * attending.length());
    }
  }
}

}  // namespace tessera
