#include "compile/model/model_tensors.h"

#include "base/error.h"

namespace tessera {
namespace {

bool is_norm(ModelPart part) {
  switch (part) {
    case ModelPart::kAttnNorm:
    case ModelPart::kQueryNorm:
    case ModelPart::kKeyNorm:
    case ModelPart::kMlpNorm:
    case ModelPart::kFinalNorm:
      return true;
    default:
      return false;
  }
}

Shape shape_of(const ModelSpec& m, ModelPart part) {
  switch (part) {
    case ModelPart::kEmbed:
    case ModelPart::kHead:
      return {m.vocab, m.hidden};
    case ModelPart::kPositions:
      return {m.max_positions, m.hidden};
    case ModelPart::kQuery:
      return {m.heads * m.head_dim, m.hidden};
    case ModelPart::kKey:
    case ModelPart::kValue:
      return {m.kv_heads * m.head_dim, m.hidden};
    case ModelPart::kAttnOut:
      return {m.hidden, m.heads * m.head_dim};
    case ModelPart::kGate:
    case ModelPart::kUp:
      return {m.ffn, m.hidden};
    case ModelPart::kDown:
      return {m.hidden, m.ffn};
    case ModelPart::kQueryNorm:
    case ModelPart::kKeyNorm:
      return {m.head_dim};
    case ModelPart::kAttnNorm:
    case ModelPart::kMlpNorm:
    case ModelPart::kFinalNorm:
      return {m.hidden};
  }
  TESSERA_CHECK(false, "no such part");
  return {};
}

// Llama, Mistral and Qwen; what Llama itself does not have is named in its manner.
std::string llama_name(ModelPart part, int64_t layer) {
  const auto in_block = [&](const char* name) {
    return fmt::format("model.layers.{}.{}", layer, name);
  };
  switch (part) {
    case ModelPart::kEmbed:
      return "model.embed_tokens";
    case ModelPart::kPositions:
      return "model.embed_positions";
    case ModelPart::kAttnNorm:
      return in_block("input_layernorm");
    case ModelPart::kQuery:
      return in_block("self_attn.q_proj");
    case ModelPart::kKey:
      return in_block("self_attn.k_proj");
    case ModelPart::kValue:
      return in_block("self_attn.v_proj");
    case ModelPart::kQueryNorm:
      return in_block("self_attn.q_norm");
    case ModelPart::kKeyNorm:
      return in_block("self_attn.k_norm");
    case ModelPart::kAttnOut:
      return in_block("self_attn.o_proj");
    case ModelPart::kMlpNorm:
      return in_block("post_attention_layernorm");
    case ModelPart::kGate:
      return in_block("mlp.gate_proj");
    case ModelPart::kUp:
      return in_block("mlp.up_proj");
    case ModelPart::kDown:
      return in_block("mlp.down_proj");
    case ModelPart::kFinalNorm:
      return "model.norm";
    case ModelPart::kHead:
      return "lm_head";
  }
  TESSERA_CHECK(false, "no such part");
  return {};
}

std::string gpt2_name(ModelPart part, int64_t layer) {
  const auto in_block = [&](const char* name) {
    return fmt::format("transformer.h.{}.{}", layer, name);
  };
  switch (part) {
    case ModelPart::kEmbed:
      return "transformer.wte";
    case ModelPart::kPositions:
      return "transformer.wpe";
    case ModelPart::kAttnNorm:
      return in_block("ln_1");
    case ModelPart::kQuery:
    case ModelPart::kKey:
    case ModelPart::kValue:
      return in_block("attn.c_attn");
    case ModelPart::kAttnOut:
      return in_block("attn.c_proj");
    case ModelPart::kMlpNorm:
      return in_block("ln_2");
    case ModelPart::kUp:
      return in_block("mlp.c_fc");
    case ModelPart::kDown:
      return in_block("mlp.c_proj");
    case ModelPart::kFinalNorm:
      return "transformer.ln_f";
    case ModelPart::kHead:
      return "lm_head";
    case ModelPart::kQueryNorm:
    case ModelPart::kKeyNorm:
    case ModelPart::kGate:
      break;
  }
  TESSERA_CHECK(false, "GPT-2 has no such part");
  return {};
}

// The matrices of GPT-2's blocks are stored [in, out], those of q, k and v side by side.
struct Gpt2Columns {
  int64_t first = 0;
  int64_t all = 0;        // 0: stored as it is
  const char* mark = "";  // tells tensors apart that share a name
};

Gpt2Columns gpt2_columns(const ModelSpec& m, ModelPart part) {
  const int64_t q = m.heads * m.head_dim;
  const int64_t kv = m.kv_heads * m.head_dim;
  switch (part) {
    case ModelPart::kQuery:
      return {0, q + 2 * kv, "[q]"};
    case ModelPart::kKey:
      return {q, q + 2 * kv, "[k]"};
    case ModelPart::kValue:
      return {q + kv, q + 2 * kv, "[v]"};
    case ModelPart::kAttnOut:
    case ModelPart::kDown:
      return {0, m.hidden};
    case ModelPart::kUp:
      return {0, m.ffn};
    default:
      return {};
  }
}

LogicalTensor tensor_of(const ModelSpec& model, ModelPart part, int64_t layer, const Shape& shape,
                        const char* suffix) {
  const bool gpt2 = model.family == ModelFamily::kGpt2;
  LogicalTensor tensor =
      named_tensor((gpt2 ? gpt2_name(part, layer) : llama_name(part, layer)) + suffix, shape);
  const Gpt2Columns columns = gpt2 ? gpt2_columns(model, part) : Gpt2Columns{};
  if (columns.all == 0) return tensor;
  tensor.name += columns.mark;
  tensor.stored.offset = columns.first;
  if (tensor.shape.size() == 1) {
    tensor.stored.shape = {columns.all};
  } else {
    tensor.stored.shape = {tensor.cols(), columns.all};
    tensor.stored.row_step = 1;
    tensor.stored.col_step = columns.all;
  }
  return tensor;
}

}  // namespace

LogicalTensor named_tensor(const std::string& name, const Shape& shape) {
  LogicalTensor tensor;
  tensor.name = name;
  tensor.shape = shape;
  tensor.stored = {name, shape, 0, tensor.cols(), 1};
  return tensor;
}

LogicalTensor weight_of(const ModelSpec& model, ModelPart part, int64_t layer) {
  LogicalTensor tensor = tensor_of(model, part, layer, shape_of(model, part), ".weight");
  const bool residual = part == ModelPart::kAttnOut || part == ModelPart::kDown;
  if (residual) tensor.init = Init::kResidual;
  if (is_norm(part)) tensor.init = Init::kOnes;
  return tensor;
}

LogicalTensor bias_of(const ModelSpec& model, ModelPart part, int64_t layer) {
  LogicalTensor tensor = tensor_of(model, part, layer, {shape_of(model, part).front()}, ".bias");
  tensor.init = Init::kZeros;
  tensor.unseen =
      part == ModelPart::kKey && model.positions != PositionKind::kRope && !model.qk_norm;
  return tensor;
}

}  // namespace tessera
