#include "train/verify/hf_check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/catalogue/model_size.h"
#include "train/verify/forward.h"

namespace tessera {
namespace {

// -log softmax(logits)[label]
double loss_of(std::span<const double> logits, int32_t label) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - top);
  return std::log(sum) + top - logits[static_cast<size_t>(label)];
}

// The mean over all tokens of the batch.
double mean_loss(const RunSpec& spec, const std::vector<double>& logits,
                 const SampleSource& samples) {
  const auto seq_len = static_cast<size_t>(spec.train.seq_len);
  const auto vocab = static_cast<size_t>(spec.model.vocab);
  std::vector<int32_t> tokens(seq_len);
  std::vector<int32_t> labels(seq_len);
  double sum = 0;
  for (int64_t row = 0; row < spec.train.global_batch; ++row) {
    samples(row, tokens, labels);
    for (size_t t = 0; t < seq_len; ++t) {
      const size_t at = (static_cast<size_t>(row) * seq_len + t) * vocab;
      sum += loss_of(std::span(logits).subspan(at, vocab), labels[t]);
    }
  }
  return sum / static_cast<double>(spec.train.global_batch * spec.train.seq_len);
}

std::string data_of(const DataSpec& data) {
  if (data.is_sets()) {
    return fmt::format("'{}'", data.train.empty() ? data.mix.front().path : data.train);
  }
  return "the bytes of " + (data.path.empty() ? "the built-in stories" : "'" + data.path + "'");
}

// The bytes of the text, folded into a vocabulary that is smaller than a byte.
SampleSource byte_samples(const RunSpec& spec) {
  if (spec.data.is_sets()) return text_samples(spec);
  const int64_t vocab = spec.model.vocab;
  RunSpec wide = spec;
  wide.model.vocab = std::max<int64_t>(vocab, 256);
  return [text = text_samples(wide), vocab](int64_t sample, std::span<int32_t> tokens,
                                            std::span<int32_t> labels) {
    text(sample, tokens, labels);
    for (const std::span<int32_t> ids : {tokens, labels}) {
      for (int32_t& id : ids) id = static_cast<int32_t>(id % vocab);
    }
  };
}

}  // namespace

VerifyReport check_hf(RunSpec spec) {
  if (spec.train.threads == 0) spec.train.threads = 1;
  const SampleSource samples = byte_samples(spec);
  const std::vector<double> logits = forward_logits(spec, spec.train.global_batch, samples);
  const double loss = mean_loss(spec, logits, samples);
  const std::string& folder = spec.model.hf;
  if (!std::isfinite(loss)) {
    throw Error(fmt::format("'{}': the loss is {}: the weights hold values that are not finite",
                            folder, loss),
                ExitCode::kDiverged);
  }
  const double nothing = std::log(static_cast<double>(spec.model.vocab));
  const int64_t tokens = spec.train.global_batch * spec.train.seq_len;
  const int64_t parameters = model_size(spec.model).total;
  VerifyReport report;
  report.equal = true;
  report.json = {{"schema_version", kVerifySchemaVersion},
                 {"kind", "verification"},
                 {"hf", folder},
                 {"dtype", std::string(name_of(spec.train.dtype))},
                 {"parameters", parameters},
                 {"tokens", tokens},
                 {"loss", loss},
                 {"uniform_loss", nothing}};
  report.text = fmt::format(
      "{}: {} with {} parameters\nloss {:.4f} over {} tokens ({}), in {}; one that "
      "knows nothing has {:.4f}\nit loads and computes; --golden compares with recorded values\n",
      folder, name_of(spec.model.family), with_thousands(parameters), loss, with_thousands(tokens),
      data_of(spec.data), name_of(spec.train.dtype), nothing);
  return report;
}

}  // namespace tessera
