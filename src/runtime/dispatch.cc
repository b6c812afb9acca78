#include "runtime/dispatch.h"

#include <algorithm>
#include <cmath>

#include "runtime/dispatch_experts.h"

namespace tessera {
namespace {

void add_sum_squares(kernels::Context& context, const Tensor& gradient, Tensor& metrics,
                     int64_t bucket) {
  double sum = 0;
  kernels::sum_squares(context, gradient, &sum);
  metrics.as<double>()[kMetricsHead + bucket] += sum;
}

// Unmasked labels of part `part` of `parts` equal ones.
double count_unmasked(const Tensor& labels, int64_t part, int64_t parts) {
  const int64_t count = labels.numel() / parts;
  const int32_t* label = labels.as<int32_t>() + part * count;
  return static_cast<double>(std::count_if(label, label + count, [](int32_t l) { return l >= 0; }));
}

void add_metrics(const Tensor& loss, const Tensor& labels, Tensor& metrics,
                 const KernelArgs& args) {
  if (!args.owner) return;
  metrics.as<double>()[kMetricLoss] += loss.as<double>()[0];
  metrics.as<double>()[kMetricTokens] += count_unmasked(labels, 0, 1);
  metrics.as<double>()[kMetricUpdateTokens] +=
      count_unmasked(labels, args.updates - 1, args.updates);
}

void count_tokens(const Tensor& labels, Tensor& counts) {
  for (int64_t i = 0; i < counts.numel(); ++i) {
    counts.as<double>()[i] = count_unmasked(labels, i, counts.numel());
  }
}

// What is known when an update is made: the metrics of the step, or no more than the tokens of the
// update where stages do not wait for each other.
StepOutcome known_at_update(const Tensor& metrics, double loss_scale) {
  if (metrics.numel() > 1) return outcome_of(metrics, loss_scale);
  StepOutcome outcome;
  outcome.tokens = metrics.as<double>()[0];
  return outcome;
}

// A step whose loss or gradient is known not to be finite changes nothing.
void update(kernels::Context& context, const Instruction& instruction,
            std::span<const Tensor> tensors, const StepParams& params) {
  const auto at = [&](BufferId id) { return tensors[static_cast<size_t>(id)]; };
  const StepOutcome outcome = known_at_update(at(instruction.inputs[1]), params.loss_scale);
  if (!outcome.finite()) return;
  kernels::AdamW options;
  options.lr = params.lr;
  options.beta1 = params.beta1;
  options.beta2 = params.beta2;
  options.eps = params.eps;
  options.weight_decay = instruction.args.decay ? params.weight_decay : 0;
  options.step = (params.step - 1) * instruction.args.updates + instruction.args.update;
  // The small constant is PyTorch's: it keeps the two comparable to the last digit.
  const double clip =
      params.clip > 0 ? std::min(1.0, params.clip / (outcome.grad_norm + 1e-6)) : 1.0;
  options.grad_scale = clip / std::max(1.0, outcome.tokens) / params.loss_scale;
  Tensor weight = at(instruction.outputs[0]);
  Tensor m = at(instruction.outputs[1]);
  Tensor v = at(instruction.outputs[2]);
  Tensor master = instruction.outputs.size() > 3 ? at(instruction.outputs[3]) : weight;
  kernels::adamw(context, master, m, v, at(instruction.inputs[0]), weight, options);
}

SequenceRows rows_of(const KernelArgs& args) { return {args.seq_len, args.parts, args.q_part}; }

DropoutMask dropout_mask(const KernelArgs& args, const StepParams& params) {
  if (args.dropout == 0) return {};
  return {args.dropout, dropout_key(params.seed, params.step, args.unit, args.site),
          args.first_sample};
}

kernels::AttentionShape attention_shape(const KernelArgs& args, const StepParams& params) {
  kernels::AttentionShape shape;
  shape.seq_len = args.seq_len;
  shape.heads = args.heads;
  shape.kv_heads = args.kv_heads;
  shape.head_dim = args.head_dim;
  shape.heads_per_kv = args.heads_per_kv;
  shape.first_head = args.first_head;
  shape.first_kv_head = args.first_kv_head;
  shape.parts = args.parts;
  shape.q_part = args.q_part;
  shape.kv_part = args.kv_part;
  shape.window = args.window;
  shape.dropout = dropout_mask(args, params);
  return shape;
}

}  // namespace

bool StepOutcome::finite() const { return std::isfinite(loss) && std::isfinite(grad_norm); }

bool StepOutcome::overflowed() const { return std::isfinite(loss) && !std::isfinite(grad_norm); }

StepOutcome outcome_of(const Tensor& numbers, double loss_scale) {
  const auto* metrics = numbers.as<double>();
  double sum_squares = 0;
  for (int64_t i = kMetricsHead; i < numbers.numel(); ++i) sum_squares += metrics[i];
  StepOutcome outcome;
  outcome.tokens = metrics[kMetricTokens];
  const double count = std::max(1.0, outcome.tokens);
  outcome.loss = metrics[kMetricLoss] / count;
  outcome.update_tokens = metrics[kMetricUpdateTokens];
  outcome.grad_norm = std::sqrt(sum_squares) / std::max(1.0, outcome.update_tokens) / loss_scale;
  return outcome;
}

void run_kernel(kernels::Context& context, const Instruction& instruction,
                std::span<const Tensor> tensors, const StepParams& params) {
  const auto in = [&](size_t i) { return tensors[static_cast<size_t>(instruction.inputs[i])]; };
  const auto out = [&](size_t i) { return tensors[static_cast<size_t>(instruction.outputs[i])]; };
  const KernelArgs& args = instruction.args;
  const bool add = instruction.accumulate;
  Tensor y = out(0);
  switch (instruction.op) {
    case OpKind::kEmbedding:
      return kernels::embedding(context, in(0), in(1), y, args.first_row);
    case OpKind::kEmbeddingDw:
      return kernels::embedding_dw(context, in(0), in(1), y, args.first_row, add);
    case OpKind::kRmsNorm: {
      Tensor rstd = out(1);
      return kernels::rms_norm(context, in(0), in(1), y, rstd, args.eps);
    }
    case OpKind::kAddRmsNorm: {
      Tensor normed = out(1);
      Tensor rstd = out(2);
      return kernels::add_rms_norm(context, in(0), in(1), in(2), y, normed, rstd, args.eps);
    }
    case OpKind::kRmsNormDx: {
      const Tensor residual = instruction.inputs.size() > 4 ? in(4) : Tensor();
      return kernels::rms_norm_dx(context, in(0), in(1), in(2), in(3), residual, y);
    }
    case OpKind::kRmsNormDw:
      return kernels::rms_norm_dw(context, in(0), in(1), in(2), y, add);
    case OpKind::kLinear:
      return kernels::linear(context, in(0), in(1), y);
    case OpKind::kLinearDx:
      return kernels::linear_dx(context, in(0), in(1), y, add);
    case OpKind::kLinearDw:
      return kernels::linear_dw(context, in(0), in(1), y, add);
    case OpKind::kRope:
      return kernels::rope(context, in(0), in(1), in(2), y, args.heads, args.inverse);
    case OpKind::kAttention: {
      Tensor lse = out(1);
      return kernels::attention(context, in(0), in(1), y, lse, attention_shape(args, params));
    }
    case OpKind::kAttentionGrad: {
      Tensor dkv = out(1);
      return kernels::attention_grad(context, in(0), in(1), in(2), in(3), in(4), y, dkv,
                                     attention_shape(args, params));
    }
    case OpKind::kAttentionPart: {
      const bool merges = instruction.inputs.size() > 2;
      Tensor lse = out(1);
      return kernels::attention_part(context, in(0), in(1), merges ? in(2) : Tensor(),
                                     merges ? in(3) : Tensor(), y, lse,
                                     attention_shape(args, params));
    }
    case OpKind::kAttentionGradPart: {
      const Tensor before = instruction.inputs.size() > 5 ? in(5) : Tensor();
      Tensor dkv = out(1);
      return kernels::attention_grad_part(context, in(0), in(1), in(2), in(3), in(4), before, y,
                                          dkv, attention_shape(args, params));
    }
    case OpKind::kSplitColumns:
      return kernels::split_columns(context, in(0), y, args.column_groups);
    case OpKind::kJoinColumns:
      return kernels::join_columns(context, in(0), y, args.column_groups);
    case OpKind::kSwiGlu:
      return kernels::swiglu(context, in(0), y);
    case OpKind::kSwiGluGrad:
      return kernels::swiglu_grad(context, in(0), in(1), y);
    case OpKind::kAdd:
      return kernels::add(context, in(0), in(1), y);
    case OpKind::kAddBias:
      return kernels::add_bias(context, in(0), in(1), y);
    case OpKind::kBiasDw:
      return kernels::bias_dw(context, in(0), y, add);
    case OpKind::kLayerNorm: {
      Tensor stats = out(1);
      return kernels::layer_norm(context, in(0), in(1), in(2), y, stats, args.eps);
    }
    case OpKind::kAddLayerNorm: {
      Tensor normed = out(1);
      Tensor stats = out(2);
      return kernels::add_layer_norm(context, in(0), in(1), in(2), in(3), y, normed, stats,
                                     args.eps);
    }
    case OpKind::kLayerNormDx: {
      const Tensor residual = instruction.inputs.size() > 4 ? in(4) : Tensor();
      return kernels::layer_norm_dx(context, in(0), in(1), in(2), in(3), residual, y);
    }
    case OpKind::kLayerNormDw:
      return kernels::layer_norm_dw(context, in(0), in(1), in(2), y, add);
    case OpKind::kGelu:
      return kernels::gelu(context, in(0), y);
    case OpKind::kGeluGrad:
      return kernels::gelu_grad(context, in(0), in(1), y);
    case OpKind::kAddPositions:
      return kernels::add_positions(context, in(0), in(1), y, rows_of(args), args.first_token);
    case OpKind::kPositionsDw:
      return kernels::positions_dw(context, in(0), y, rows_of(args), args.first_token, add);
    case OpKind::kHeadNorm: {
      Tensor rstd = out(1);
      return kernels::head_norm(context, in(0), in(1), y, rstd, args.eps);
    }
    case OpKind::kHeadNormDx:
      return kernels::head_norm_dx(context, in(0), in(1), in(2), in(3), y);
    case OpKind::kHeadNormDw:
      return kernels::head_norm_dw(context, in(0), in(1), in(2), y, add);
    case OpKind::kDropout:
      return kernels::dropout(context, in(0), y, dropout_mask(args, params), rows_of(args),
                              args.first_token);
    case OpKind::kCrossEntropyStats: {
      Tensor stats(y.data, y.dtype, {y.dim(1), y.dim(2)});  // this rank's one part
      return kernels::cross_entropy_stats(context, in(0), in(1), stats, args.first_row,
                                          args.valid_rows);
    }
    case OpKind::kCrossEntropyLoss:
      return kernels::cross_entropy_loss(context, in(0), in(1), y, add);
    case OpKind::kCrossEntropyGrad:
      return kernels::cross_entropy_grad(context, in(0), in(1), in(2), y, args.first_row,
                                         args.valid_rows, params.loss_scale);
    case OpKind::kSumSquares:
      return add_sum_squares(context, in(0), y, args.bucket);
    case OpKind::kMetrics:
      return add_metrics(in(0), in(1), y, args);
    case OpKind::kCountTokens:
      return count_tokens(in(0), y);
    case OpKind::kAdamW:
      return update(context, instruction, tensors, params);
    case OpKind::kZero:
      return kernels::fill_zero(context, y);
    case OpKind::kConvert:
    case OpKind::kCopy:
      return kernels::copy(context, in(0), y);
    case OpKind::kAccumulate:
      return kernels::accumulate_into(context, in(0), y);
    default:
      if (run_expert_kernel(context, instruction, tensors, params)) return;
      TESSERA_CHECK(false, "{} '{}' is no kernel", name_of(instruction.op), instruction.name);
  }
}

}  // namespace tessera
