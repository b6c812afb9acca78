#include "train/verify/scorer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

// Programs are compiled for one length. These double: what the model says of a token does not
// depend on how many places follow it.
int64_t compiled_length(int64_t inputs, int64_t most) {
  constexpr int64_t kShortest = 32;
  int64_t length = kShortest;
  while (length < inputs) length *= 2;
  return std::min(length, most);
}

// The logits of place t say what comes after token t.
void score_text(Executor& executor, const std::vector<int32_t>& text, int64_t vocab,
                std::vector<double>& log_probabilities) {
  const Program& program = executor.program();
  const auto inputs = static_cast<int64_t>(text.size()) - 1;
  int32_t* tokens = executor.input(program.tokens);
  const int64_t places = numel(program.buffer(program.tokens).shape);
  for (int64_t t = 0; t < places; ++t) tokens[t] = t < inputs ? text[static_cast<size_t>(t)] : 0;
  executor.run({});
  const HostView view = executor.view(program.logits);
  const Tensor& logits = view.tensor;
  log_probabilities.clear();
  for (int64_t t = 0; t < inputs; ++t) {
    const std::span<const float> row(logits.as<float>() + t * logits.dim(1),
                                     static_cast<size_t>(vocab));
    log_probabilities.push_back(log_probability(row, text[static_cast<size_t>(t) + 1]));
  }
}

}  // namespace

double log_probability(std::span<const float> logits, int32_t token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return logits[static_cast<size_t>(token)] - top - std::log(sum);
}

void Scorer::score(std::span<const std::vector<int32_t>> texts, const OnText& on_text) const {
  const RunSpec& spec = folder_.spec;
  std::map<int64_t, std::vector<size_t>> by_length;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto inputs = static_cast<int64_t>(texts[i].size()) - 1;
    TESSERA_CHECK(inputs >= 1 && inputs <= spec.train.seq_len, "text {} has {} tokens", i,
                  texts[i].size());
    by_length[compiled_length(inputs, spec.train.seq_len)].push_back(i);
  }
  std::vector<double> log_probabilities;
  for (const auto& [length, members] : by_length) {
    RunSpec of_length = spec;
    of_length.train.seq_len = length;
    StepGraph step = build_step(of_length, StepKind::kForward);
    const TensorSource weights = hf_weights(folder_.path, step.layout);
    World world(std::move(step));
    world.run([&](int, Executor& executor) {
      load_weights(executor, world.step(), weights);
      for (const size_t i : members) {
        score_text(executor, texts[i], spec.model.vocab, log_probabilities);
        if (!std::all_of(log_probabilities.begin(), log_probabilities.end(),
                         [](double p) { return std::isfinite(p); })) {
          throw Error(fmt::format("'{}': the model says nothing that is finite: its weights hold "
                                  "NaN or Inf",
                                  folder_.path),
                      ExitCode::kDiverged);
        }
        on_text(i, log_probabilities);
      }
    });
  }
}

}  // namespace tessera
