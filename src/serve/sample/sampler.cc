#include "serve/sample/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "serve/sample/cut.h"
#include "serve/sample/draw.h"
#include "serve/sample/row_math.h"

namespace tessera::serve {
namespace {

constexpr size_t kBitsPerWord = 32;

// What a row is worked on in.
struct RowMemory {
  std::vector<double> values;
  std::vector<double> weights;
  std::vector<RowEntry> likeliest;
  CutFinder finder;
};

// Each thread has its own: a rank samples row after row, each from nothing.
RowMemory& row_memory() {
  thread_local RowMemory memory;
  return memory;
}

void add_logprobs(std::span<const double> logits, int count, RowMemory& memory,
                  SampledToken& sampled) {
  const double most = greatest(logits);
  const double log_of_sum = most + std::log(sum_of_exp(logits, most));
  find_first(logits, count, memory.likeliest);
  sampled.top.reserve(memory.likeliest.size());
  for (const RowEntry& entry : memory.likeliest) {
    sampled.top.push_back({entry.id, entry.value - log_of_sum});
  }
  sampled.logprob = -log_of_sum;  // the logit of the token is added when it is known
}

size_t index_of(int32_t token, size_t vocab, const char* what) {
  require(token >= 0 && static_cast<size_t>(token) < vocab,
          "{} names the token {}, but the vocabulary has {}", what, token, vocab);
  return static_cast<size_t>(token);
}

void add_bias(const Sampling& how, std::span<double> values) {
  for (const auto& [token, bias] : how.logit_bias) {
    values[index_of(token, values.size(), "logit_bias")] += bias;
  }
}

void add_penalties(const RowSampling& by, std::span<double> values) {
  const Sampling& how = *by.how;
  if (!how.has_penalties()) return;
  for (const TokenCount& seen : by.counts) {
    double& value = values[index_of(seen.token, values.size(), "a count")];
    value = value > 0 ? value / how.repetition_penalty : value * how.repetition_penalty;
    if (seen.in_answer == 0) continue;
    value -= how.presence_penalty + how.frequency_penalty * seen.in_answer;
  }
}

void mask(const std::vector<uint32_t>& allowed, std::span<double> values) {
  if (allowed.empty()) return;
  const size_t words = (values.size() + kBitsPerWord - 1) / kBitsPerWord;
  require(allowed.size() == words, "the mask has {} words; {} tokens need {}", allowed.size(),
          values.size(), words);
  for (size_t word = 0; word < words; ++word) {
    const uint32_t bits = allowed[word];
    if (bits == ~uint32_t{0}) continue;
    const size_t first = word * kBitsPerWord;
    const size_t end = std::min(first + kBitsPerWord, values.size());
    for (size_t i = first; i < end; ++i) {
      if ((bits >> (i - first) & 1) == 0) values[i] = -HUGE_VAL;
    }
  }
}

int32_t choose(const RowSampling& by, double most, RowMemory& memory) {
  const Sampling& how = *by.how;
  const std::span<double> values = memory.values;
  if (!(how.temperature > 0)) {
    return static_cast<int32_t>(std::find(values.begin(), values.end(), most) - values.begin());
  }
  shift_and_divide(values, most, how.temperature);
  memory.weights.resize(values.size());
  exp_of_row(values, memory.weights);
  Cut cut;
  memory.finder.keep_first(values, how.top_k, cut);
  if (how.top_p < 1) memory.finder.keep_share(values, memory.weights, how.top_p, cut);
  if (how.min_p > 0) {
    const double least = std::min(std::log(how.min_p), 0.0);
    if (least > cut.least) cut = {.least = least};
  }
  return draw(values, memory.weights, cut, {how.seed, by.choice, by.position});
}

template <typename T>
SampledToken sample_parts(std::span<const std::span<const T>> parts, const RowSampling& by) {
  TESSERA_CHECK(by.how != nullptr, "a row without a Sampling");
  RowMemory& memory = row_memory();
  size_t vocab = 0;
  for (const auto& part : parts) vocab += part.size();
  require(vocab > 0, "a row without logits");
  memory.values.resize(vocab);
  const std::span<double> values = memory.values;
  SampledToken sampled;
  size_t at = 0;
  for (const auto& part : parts) {
    sampled.finite = copy_finite(part, values.subspan(at, part.size())) && sampled.finite;
    at += part.size();
  }
  if (!sampled.finite) return sampled;
  if (by.how->logprobs >= 0) add_logprobs(values, by.how->logprobs, memory, sampled);
  add_bias(*by.how, values);
  add_penalties(by, values);
  mask(by.allowed, values);
  const double most = greatest(values);
  if (!std::isfinite(most)) {  // nothing is allowed
    sampled.finite = false;
    return sampled;
  }
  sampled.token = choose(by, most, memory);
  if (by.how->logprobs < 0) return sampled;
  auto place = static_cast<size_t>(sampled.token);
  for (const auto& part : parts) {
    if (place < part.size()) {
      sampled.logprob += static_cast<double>(part[place]);
      break;
    }
    place -= part.size();
  }
  return sampled;
}

}  // namespace

SampledToken sample(std::span<const double> logits, const RowSampling& by) {
  return sample_parts<double>({&logits, 1}, by);
}
SampledToken sample(std::span<const float> logits, const RowSampling& by) {
  return sample_parts<float>({&logits, 1}, by);
}
SampledToken sample(std::span<const std::span<const double>> parts, const RowSampling& by) {
  return sample_parts<double>(parts, by);
}
SampledToken sample(std::span<const std::span<const float>> parts, const RowSampling& by) {
  return sample_parts<float>(parts, by);
}

}  // namespace tessera::serve
