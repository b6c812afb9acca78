// Cross entropy over a vocabulary that may be split.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

inline Types cross_entropy_stats_types(const Operands& o) {
  return {{o.wide(0), {o.attrs().parts, o.dim(0, 0), 3}, {}}};
}

// The statistics carry no gradient of their own.
inline void cross_entropy_loss_gradient(Gradients& g, const Node& node, ValueId) {
  const ValueId stats = node.inputs[0];
  const ValueId labels = node.inputs[1];
  const ValueId logits = node.inputs[2];
  g.contribute(logits, OpKind::kCrossEntropyGrad, {logits, stats, labels}, node.attrs,
               input_grad(node));
}

inline int64_t cpu_cross_entropy_loss(const KernelSizes& s) {
  return workspace::cross_entropy_loss(s.threads);
}

inline constexpr OpRow kLossOps[] = {
    // stats: [parts of the vocabulary, tokens, 3]
    {.kind = OpKind::kCrossEntropyStats,
     .name = "cross_entropy_stats",
     .signature = "logits labels > stats",
     .types = cross_entropy_stats_types,
     .rules = {"I I > I", "S1 R > S0", "tokens S0 S0 > S1"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kLoss,
     .kernel = {.numbers = KernelNumbers::kVocabularyOfLogits}},
    {.kind = OpKind::kCrossEntropyLoss,
     .name = "cross_entropy_loss",
     .signature = "stats labels logits > loss",
     .types = one_number,
     .rules = {"I I I > I", "I R S1 > I", "tokens S1 S0 S0 > P"},
     .gradient = {cross_entropy_loss_gradient, Gradient::Needs::kNothing},
     .storage = Place::kLoss,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kLoss,
     .kernel = {.extra = ExtraOperands::kWithoutLastInput, .cpu_scratch = cpu_cross_entropy_loss}},
    {.kind = OpKind::kCrossEntropyGrad,
     .name = "cross_entropy_grad",
     .signature = "logits stats labels > d_logits",
     .types = like_input<0>,
     .rules = {"I I I > I", "S1 I R > S1", "tokens S0 S1 S0 > S0"},
     .gradient = no_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kLoss,
     .kernel = {.numbers = KernelNumbers::kVocabularyOfLogits}},
};

}  // namespace tessera::ops
