// A tiny model and random data for tests that train on many meshes.
#pragma once

#include <array>
#include <sstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/philox.h"
#include "compile/testing/test_spec.h"
#include "spec/entry.h"
#include "spec/families.h"
#include "spec/keys.h"
#include "spec/run_file/validate.h"
#include "spec/toml_entries.h"
#include "train/samples/batch.h"

namespace tessera::testing {

inline RunSpec tiny_spec() {
  RunSpec spec = small_spec("dp=1");
  spec.model.init_std = 0.3;  // large enough that every term of the gradient matters
  spec.train.micro_batch = 1;
  spec.train.global_batch = 4;
  spec.train.steps = 3;
  spec.train.dtype = DType::kF64;
  spec.optimizer.lr = 1e-2;
  spec.optimizer.eps = 1e-4;  // Adam divides by |g|: near zero it would magnify rounding errors
  return spec;
}

// Where a bare name in a line is looked for; the first section that has it wins.
inline constexpr std::array<std::string_view, 5> kCaseSections = {"parallel", "model", "train",
                                                                  "optimizer", "data"};

// The section of a run file key that a line may name, or "" for none.
inline std::string_view section_of(std::string_view name) {
  for (const std::string_view section : kCaseSections) {
    if (find_key(section, name) != nullptr) return section;
  }
  return {};
}

struct TinyCase {
  RunSpec spec;
  std::string mask = "none";
};

// "dp=2 tp=2 vocab=37 mask=some" on top of tiny_spec(), resolved. Every key of the run file's
// [parallel], [model], [train], [optimizer] and [data] may be named; "family" brings its blocks,
// which the keys after it may change. ConfigError as for a run file.
inline TinyCase parse_case(const std::string& line) {
  TinyCase result{tiny_spec(), "none"};
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    require_config(equals != std::string::npos, "'{}' in '{}' is not key=value", word, line);
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    if (key == "mask") {
      result.mask = value;
      continue;
    }
    if (key == "family") {
      const std::optional<ModelFamily> family = choice_named<ModelFamily>(value);
      require_config(family.has_value(), "unknown family '{}' in '{}'", value, line);
      use_family(result.spec.model, *family);
      continue;
    }
    const std::string_view section = section_of(key);
    require_config(!section.empty(), "unknown key '{}' in '{}'", key, line);
    apply(entries_of_value(std::string(section), key, value, line), result.spec, Ranges::kCheck);
  }
  resolve(result.spec);
  return result;
}

// The same model and batch on one rank.
inline RunSpec on_one_rank(RunSpec spec) {
  spec.parallel = ParallelSpec();
  // Means over groups of sequences need a whole group in a micro-batch.
  if (spec.train.micro_batch % spec.train.aux_group != 0) {
    spec.train.micro_batch = spec.train.aux_group;
  }
  resolve(spec);
  return spec;
}

// Random tokens. "some": every third label masked; "replica": the whole first sample of each
// micro-batch row, so that one data-parallel rank has nothing to learn from.
inline SampleSource random_samples(const RunSpec& spec, const std::string& mask) {
  const int64_t vocab = spec.model.vocab;
  const int64_t replicas = spec.parallel.replicas();
  const int64_t micro_batch = spec.train.micro_batch;
  return [=](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    const auto at = [&](size_t t) {
      return static_cast<int32_t>(static_cast<double>(vocab) *
                                  uniform_at(11, static_cast<uint64_t>(sample), t));
    };
    const bool whole = mask == "replica" && sample / micro_batch % replicas == 0;
    for (size_t t = 0; t < tokens.size(); ++t) {
      tokens[t] = at(t);
      labels[t] = at(t + 1);
      if (whole || (mask == "some" && (static_cast<size_t>(sample) + t) % 3 == 0)) labels[t] = -100;
    }
  };
}

}  // namespace tessera::testing
