#include "train/verify/logits_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/json.h"
#include "checkpoint/safetensors.h"
#include "spec/run_file/validate.h"
#include "train/verify/forward.h"

namespace tessera {

std::vector<std::vector<int32_t>> read_ids(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  require_config(in.good(), "cannot read '{}'", file);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const nlohmann::json json = parse_json(text, file);
  const auto require_shape = [&](bool ok) {
    require_config(ok, "'{}' must hold lists of ids of one length, such as [[5, 1, 7], [2, 2, 9]]",
                   file);
  };
  require_shape(json.is_array() && !json.empty());
  std::vector<std::vector<int32_t>> rows;
  for (const nlohmann::json& row : json) {
    require_shape(row.is_array() && !row.empty() && row.size() == json.front().size());
    rows.emplace_back();
    for (const nlohmann::json& id : row) {
      require_shape(id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX);
      rows.back().push_back(id.get<int32_t>());
    }
  }
  return rows;
}

void write_logits(const ModelFolder& model, const std::vector<std::vector<int32_t>>& ids,
                  const std::string& path) {
  const auto rows = static_cast<int64_t>(ids.size());
  RunSpec spec = model.spec;
  spec.train.seq_len = std::ssize(ids.front());
  spec.train.micro_batch = spec.train.global_batch = rows;
  resolve(spec);
  std::vector<int64_t> input;
  for (const std::vector<int32_t>& row : ids) {
    for (const int32_t id : row) {
      require_config(id < spec.model.vocab, "id {} is none of the model's: its vocabulary is {}",
                     id, spec.model.vocab);
      input.push_back(id);
    }
  }
  const std::vector<double> wide = forward_logits(
      spec, rows, [&](int64_t sample, std::span<int32_t> tokens, std::span<int32_t>) {
        const std::vector<int32_t>& row = ids[static_cast<size_t>(sample)];
        std::copy(row.begin(), row.end(), tokens.begin());
      });
  const std::vector<float> logits(wide.begin(), wide.end());  // they were computed in f32
  const std::vector<TensorToWrite> tensors = {
      {"input_ids", StoredType::kI64, {rows, spec.train.seq_len}, std::as_bytes(std::span(input))},
      {"logits",
       StoredType::kF32,
       {rows, spec.train.seq_len, spec.model.vocab},
       std::as_bytes(std::span(logits))}};
  write_safetensors(path, tensors, {});
}

}  // namespace tessera
