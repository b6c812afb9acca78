// A tiny model and random data for tests that train on many meshes.
#pragma once

#include <map>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/philox.h"
#include "spec/run_file.h"
#include "spec/validate.h"
#include "train/batch.h"

namespace tessera::testing {

inline RunSpec tiny_spec() {
  RunSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 16;
  spec.model.ffn = 24;
  spec.model.heads = 4;
  spec.model.kv_heads = 4;
  spec.model.head_dim = 4;
  spec.model.vocab = 40;
  spec.model.init_std = 0.3;  // large enough that every term of the gradient matters
  spec.train.seq_len = 8;
  spec.train.micro_batch = 1;
  spec.train.global_batch = 4;
  spec.train.steps = 3;
  spec.train.dtype = DType::kF64;
  spec.train.threads = 1;
  spec.optimizer.lr = 1e-2;
  return spec;
}

struct TinyCase {
  RunSpec spec;
  std::string mask = "none";
};

// "dp=2 tp=2 vocab=37 mask=some" on top of tiny_spec(), resolved.
inline TinyCase parse_case(const std::string& line) {
  TinyCase result{tiny_spec(), "none"};
  RunSpec& spec = result.spec;
  const std::map<std::string, int64_t*> numbers = {{"layers", &spec.model.layers},
                                                   {"hidden", &spec.model.hidden},
                                                   {"ffn", &spec.model.ffn},
                                                   {"heads", &spec.model.heads},
                                                   {"kv_heads", &spec.model.kv_heads},
                                                   {"vocab", &spec.model.vocab},
                                                   {"head_dim", &spec.model.head_dim},
                                                   {"micro_batch", &spec.train.micro_batch},
                                                   {"global_batch", &spec.train.global_batch},
                                                   {"seq_len", &spec.train.seq_len},
                                                   {"loss_chunk", &spec.train.loss_chunk},
                                                   {"threads", &spec.train.threads}};
  std::string mesh;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    if (key == "mask") {
      result.mask = value;
    } else if (key == "tied") {
      spec.model.tied = value == "true";
    } else if (key == "dtype") {
      spec.train.dtype = value == "f32"    ? DType::kF32
                         : value == "bf16" ? DType::kBF16
                                           : DType::kF64;
    } else if (const auto found = numbers.find(key); found != numbers.end()) {
      *found->second = std::stoll(value);
    } else {
      mesh += (mesh.empty() ? "" : ",") + word;
    }
  }
  spec.parallel = parse_mesh(mesh, spec.parallel);
  resolve(spec);
  return result;
}

// The same model and batch on one rank.
inline RunSpec on_one_rank(RunSpec spec) {
  spec.parallel = ParallelSpec();
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
