#include "graph/op.h"

#include <array>
#include <map>
#include <string>

#include "base/error.h"

namespace tessera {

std::string_view name_of(OpKind op) {
  switch (op) {
    case OpKind::kInput:
      return "input";
    case OpKind::kParameter:
      return "parameter";
    case OpKind::kViews:
      return "views";
    case OpKind::kPack:
      return "pack";
    case OpKind::kSlice:
      return "slice";
    case OpKind::kConcat:
      return "concat";
    case OpKind::kCast:
      return "cast";
    case OpKind::kEmbedding:
      return "embedding";
    case OpKind::kRmsNorm:
      return "rms_norm";
    case OpKind::kAddRmsNorm:
      return "add_rms_norm";
    case OpKind::kLinear:
      return "linear";
    case OpKind::kRope:
      return "rope";
    case OpKind::kAttention:
      return "attention";
    case OpKind::kSwiGlu:
      return "swiglu";
    case OpKind::kAdd:
      return "add";
    case OpKind::kDropout:
      return "dropout";
    case OpKind::kCrossEntropyStats:
      return "cross_entropy_stats";
    case OpKind::kCrossEntropyLoss:
      return "cross_entropy_loss";
    case OpKind::kEmbeddingDw:
      return "embedding_dw";
    case OpKind::kRmsNormDx:
      return "rms_norm_dx";
    case OpKind::kRmsNormDw:
      return "rms_norm_dw";
    case OpKind::kLinearDx:
      return "linear_dx";
    case OpKind::kLinearDw:
      return "linear_dw";
    case OpKind::kAttentionGrad:
      return "attention_grad";
    case OpKind::kSwiGluGrad:
      return "swiglu_grad";
    case OpKind::kCrossEntropyGrad:
      return "cross_entropy_grad";
    case OpKind::kAddBias:
      return "add_bias";
    case OpKind::kLayerNorm:
      return "layer_norm";
    case OpKind::kAddLayerNorm:
      return "add_layer_norm";
    case OpKind::kGelu:
      return "gelu";
    case OpKind::kAddPositions:
      return "add_positions";
    case OpKind::kHeadNorm:
      return "head_norm";
    case OpKind::kBiasDw:
      return "bias_dw";
    case OpKind::kLayerNormDx:
      return "layer_norm_dx";
    case OpKind::kLayerNormDw:
      return "layer_norm_dw";
    case OpKind::kGeluGrad:
      return "gelu_grad";
    case OpKind::kPositionsDw:
      return "positions_dw";
    case OpKind::kHeadNormDx:
      return "head_norm_dx";
    case OpKind::kHeadNormDw:
      return "head_norm_dw";
    case OpKind::kSumSquares:
      return "sum_squares";
    case OpKind::kMetrics:
      return "metrics";
    case OpKind::kAdamW:
      return "adamw";
    case OpKind::kRouter:
      return "router";
    case OpKind::kRouterStats:
      return "router_stats";
    case OpKind::kDispatch:
      return "dispatch";
    case OpKind::kExpertLinear:
      return "expert_linear";
    case OpKind::kExpertSwiGlu:
      return "expert_swiglu";
    case OpKind::kCombine:
      return "combine";
    case OpKind::kBalanceTotals:
      return "balance_totals";
    case OpKind::kBalanceLoss:
      return "balance_loss";
    case OpKind::kRouterGrad:
      return "router_grad";
    case OpKind::kRouterStatsGrad:
      return "router_stats_grad";
    case OpKind::kDispatchGrad:
      return "dispatch_grad";
    case OpKind::kExpertLinearDx:
      return "expert_linear_dx";
    case OpKind::kExpertLinearDw:
      return "expert_linear_dw";
    case OpKind::kExpertSwiGluGrad:
      return "expert_swiglu_grad";
    case OpKind::kCombineGrad:
      return "combine_grad";
    case OpKind::kBalanceGrad:
      return "balance_grad";
    case OpKind::kAttentionPart:
      return "attention_part";
    case OpKind::kAttentionGradPart:
      return "attention_grad_part";
    case OpKind::kShift:
      return "shift";
    case OpKind::kConvert:
      return "convert";
    case OpKind::kSplitColumns:
      return "split_columns";
    case OpKind::kJoinColumns:
      return "join_columns";
    case OpKind::kZero:
      return "zero";
    case OpKind::kCopy:
      return "copy";
    case OpKind::kAccumulate:
      return "accumulate";
    case OpKind::kTieSum:
      return "tie_sum";
    case OpKind::kSend:
      return "send";
    case OpKind::kReceive:
      return "receive";
    case OpKind::kCountTokens:
      return "count_tokens";
    case OpKind::kLinearBias:
      return "linear_bias";
    case OpKind::kLinearDxGelu:
      return "linear_dx_gelu";
    case OpKind::kLinearDwBias:
      return "linear_dw_bias";
    case OpKind::kLayerNormDwBias:
      return "layer_norm_dw_bias";
    case OpKind::kLayerNormGrad:
      return "layer_norm_grad";
    case OpKind::kRmsNormGrad:
      return "rms_norm_grad";
  }
  return "?";
}

std::string_view name_of(Pass pass) {
  static constexpr std::array<std::string_view, 6> kNames = {"F", "I", "W", "G", "U", "R"};
  return kNames[static_cast<size_t>(pass)];
}

bool is_data_axis(Axis axis) { return data_axes().contains(axis); }

bool is_communication(OpKind op) {
  return op == OpKind::kCast || op == OpKind::kTieSum || op == OpKind::kSend ||
         op == OpKind::kReceive;
}

bool can_accumulate(OpKind op) {
  switch (op) {
    case OpKind::kEmbeddingDw:
    case OpKind::kRmsNormDx:
    case OpKind::kRmsNormDw:
    case OpKind::kLinearDx:
    case OpKind::kLinearDw:
    case OpKind::kCrossEntropyLoss:
    case OpKind::kBiasDw:
    case OpKind::kLayerNormDx:
    case OpKind::kLayerNormDw:
    case OpKind::kPositionsDw:
    case OpKind::kHeadNormDw:
      return true;
    case OpKind::kRouterStats:
    case OpKind::kRouterGrad:
    case OpKind::kRouterStatsGrad:
    case OpKind::kExpertLinearDw:
    case OpKind::kBalanceLoss:
      return true;
    default:
      return false;
  }
}

namespace {

// Inputs in the order of the node, then outputs. A word in front says on which axes a rule holds:
// "data" on dp and fsdp, which split whole sequences; "tokens" also on cp, where rope knows the
// positions of a rank's tokens and attention is a ring; "cp" on cp alone. The gradient rules are
// the duals of the forward ones: a test derives them and compares.
const std::map<OpKind, std::vector<std::string>>& rule_texts() {
  static const std::map<OpKind, std::vector<std::string>> kRules = {
      {OpKind::kEmbedding, {"I I > I", "S0 R > S0", "R S0 > P"}},
      {OpKind::kRmsNorm, {"I I > I I", "S0 R > S0 S0"}},
      // a b weight > sum y rstd
      {OpKind::kAddRmsNorm, {"I I I > I I I", "S0 S0 R > S0 S0 S0"}},
      {OpKind::kLinear, {"I I > I", "S0 R > S0", "R S0 > S1", "S1 S1 > P", "R R > R"}},
      {OpKind::kRope, {"I > I", "R > R", "P > P", "S1 > S1", "tokens S0 > S0"}},
      {OpKind::kAttention,
       {"I I > I I", "S1 S1 > S1 S1", "S1 R > S1 S1", "tokens S0 S0 > S0 S0", "cp S0 R > S0 S0"}},
      {OpKind::kSwiGlu, {"I > I", "S0 > S0", "S1 > S1", "R > R"}},
      {OpKind::kAdd, {"I I > I", "S0 S0 > S0", "S1 S1 > S1", "R R > R", "P P > P"}},
      // Masks depend on the token: nothing that is split by columns.
      {OpKind::kDropout, {"I > I", "S0 > S0"}},
      // logits labels > stats[parts, tokens, 3]
      {OpKind::kCrossEntropyStats, {"I I > I", "S1 R > S0", "tokens S0 S0 > S1"}},
      // stats labels logits > loss
      {OpKind::kCrossEntropyLoss, {"I I I > I", "I R S1 > I", "tokens S1 S0 S0 > P"}},
      // logits stats labels > d_logits
      {OpKind::kCrossEntropyGrad, {"I I I > I", "S1 I R > S1", "tokens S0 S1 S0 > S0"}},
      // ids dy > dtable
      {OpKind::kEmbeddingDw, {"I I > I", "S0 S0 > P", "R R > S0"}},
      // dy x w rstd > dx
      {OpKind::kRmsNormDx, {"I I I I > I", "S0 S0 R S0 > S0"}},
      // dy x rstd > dw
      {OpKind::kRmsNormDw, {"I I I > I", "S0 S0 S0 > P"}},
      // dy w > dx
      {OpKind::kLinearDx, {"I I > I", "S0 R > S0", "S1 S0 > P", "R S1 > S1", "P R > P"}},
      // dy x > dw
      {OpKind::kLinearDw, {"I I > I", "S0 S0 > P", "S1 R > S0", "R S1 > S1", "P R > P"}},
      // q kv o lse do > dq dkv
      {OpKind::kAttentionGrad,
       {"I I I I I > I I", "S1 S1 S1 S1 S1 > S1 S1", "S1 R S1 S1 S1 > S1 P",
        "tokens S0 S0 S0 S0 S0 > S0 S0", "cp S0 R S0 S0 S0 > S0 P"}},
      // q kv [o lse] > o lse: of one rank's keys, or merged with what is known of others'
      {OpKind::kAttentionPart,
       {"I I > I I", "S1 S1 > S1 S1", "S1 R > S1 S1", "tokens S0 S0 > S0 S0", "I I I I > I I",
        "S1 S1 S1 S1 > S1 S1", "S1 R S1 S1 > S1 S1", "tokens S0 S0 S0 S0 > S0 S0"}},
      // q kv o lse do [dq] > dq dkv
      {OpKind::kAttentionGradPart,
       {"I I I I I > I I", "S1 S1 S1 S1 S1 > S1 S1", "S1 R S1 S1 S1 > S1 P",
        "tokens S0 S0 S0 S0 S0 > S0 S0", "I I I I I I > I I", "S1 S1 S1 S1 S1 S1 > S1 S1",
        "S1 R S1 S1 S1 S1 > S1 P", "tokens S0 S0 S0 S0 S0 S0 > S0 S0"}},
      {OpKind::kConvert, {"I > I", "R > R", "P > P", "S0 > S0", "S1 > S1"}},
      // dh gate_up > d_gate_up
      {OpKind::kSwiGluGrad, {"I I > I", "S0 S0 > S0", "S1 S1 > S1", "P R > P"}},
      // A bias is added once: to a partial sum every rank would add it, so P is not taken.
      {OpKind::kAddBias, {"I I > I", "S0 R > S0", "S1 S0 > S1", "R R > R"}},
      {OpKind::kBiasDw, {"I > I", "S0 > P", "S1 > S0", "P > P"}},
      // x weight bias > y stats
      {OpKind::kLayerNorm, {"I I I > I I", "S0 R R > S0 S0"}},
      // a b weight bias > sum y stats
      {OpKind::kAddLayerNorm, {"I I I I > I I I", "S0 S0 R R > S0 S0 S0"}},
      // dy x w stats > dx
      {OpKind::kLayerNormDx, {"I I I I > I", "S0 S0 R S0 > S0"}},
      // dy x stats > dw
      {OpKind::kLayerNormDw, {"I I I > I", "S0 S0 S0 > P"}},
      {OpKind::kGelu, {"I > I", "S0 > S0", "S1 > S1", "R > R"}},
      // dh x > dx
      {OpKind::kGeluGrad, {"I I > I", "S0 S0 > S0", "S1 S1 > S1", "P R > P"}},
      // x table > y
      {OpKind::kAddPositions, {"I I > I", "S0 R > S0"}},
      {OpKind::kPositionsDw, {"I > I", "S0 > P"}},
      // x weight > y rstd; ranks with other heads share the weight
      {OpKind::kHeadNorm, {"I I > I I", "S0 R > S0 S0", "S1 R > S1 S1", "R R > R R"}},
      // dy x w rstd > dx
      {OpKind::kHeadNormDx, {"I I I I > I", "S0 S0 R S0 > S0", "S1 S1 R S1 > S1", "P R R R > P"}},
      // dy x rstd > dw
      {OpKind::kHeadNormDw, {"I I I > I", "S0 S0 S0 > P", "S1 S1 S1 > P", "P R R > P"}},
      // Each element counts once, on its owner, so the result is a sum over every axis.
      {OpKind::kSumSquares, {"I > P", "S0 > P"}},
      {OpKind::kTieSum, {"I > I", "S0 > S0"}},
      // Experts. Rows are [source, peer, capacity, width]: S0 before the exchange, S1 after it.
      // logits > gates ids
      {OpKind::kRouter, {"I > I I", "S0 > S0 S0"}},
      // d_gates gates ids > d_logits
      {OpKind::kRouterGrad, {"I I I > I", "S0 S0 S0 > S0"}},
      // logits ids > stats[sequences, .]. Where whole sequences are split the statistics are too;
      // elsewhere every rank has a part of each sequence. The last rule that fits holds.
      {OpKind::kRouterStats, {"I I > I", "S0 S0 > P", "data S0 S0 > S0"}},
      // logits d_stats > d_logits
      {OpKind::kRouterStatsGrad, {"I I > I", "S0 R > S0", "data S0 S0 > S0"}},
      // x ids > rows counts slots
      {OpKind::kDispatch, {"I I > I I I", "S0 S0 > S0 S0 S0"}},
      // d_rows slots > dx
      {OpKind::kDispatchGrad, {"I I > I", "S0 S0 > S0"}},
      // rows w counts > rows
      {OpKind::kExpertLinear, {"I I I > I", "S0 R S0 > S0", "S1 S0 S1 > S1"}},
      {OpKind::kExpertLinearDx, {"I I I > I", "S0 R S0 > S0", "S1 S0 S1 > S1"}},
      // dy rows counts > dw
      {OpKind::kExpertLinearDw, {"I I I > I", "S0 S0 S0 > P", "S1 S1 S1 > S0"}},
      // gate_up counts > h
      {OpKind::kExpertSwiGlu, {"I I > I", "S0 S0 > S0", "S1 S1 > S1"}},
      // dh gate_up counts > d_gate_up
      {OpKind::kExpertSwiGluGrad, {"I I I > I", "S0 S0 S0 > S0", "S1 S1 S1 > S1"}},
      // rows slots gates > y
      {OpKind::kCombine, {"I I I > I", "S0 S0 S0 > S0"}},
      // dy rows slots gates > d_rows d_gates
      {OpKind::kCombineGrad, {"I I I I > I I", "S0 S0 S0 S0 > S0 S0"}},
      // stats labels > totals
      {OpKind::kBalanceTotals, {"I I > I", "I R > I", "P S0 > P", "data S0 S0 > S0"}},
      // totals labels > loss: every rank adds the share of its own labels
      {OpKind::kBalanceLoss, {"I I > I", "I R > I", "I S0 > P", "data S0 S0 > P"}},
      // totals > d_totals
      {OpKind::kBalanceGrad, {"I > I", "data S0 > S0"}},
  };
  return kRules;
}

Placement parse_placement(const std::string& word) {
  if (word == "I") return invariant();
  if (word == "R") return replicate();
  if (word == "P") return partial();
  TESSERA_CHECK(word.size() == 2 && word[0] == 'S', "placement '{}'", word);
  return split(word[1] - '0');
}

PlacementRule parse_rule(const std::string& text) {
  PlacementRule rule;
  bool after_arrow = false;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word == "data") {
      rule.axes = sample_axes();
    } else if (word == "tokens") {
      rule.axes = data_axes();
    } else if (word == "cp") {
      rule.axes = Axis::kCp;
    } else if (word == ">") {
      after_arrow = true;
    } else {
      (after_arrow ? rule.outputs : rule.inputs).push_back(parse_placement(word));
    }
  }
  return rule;
}

}  // namespace

std::span<const PlacementRule> placement_rules(OpKind op) {
  // By op: they are looked up for every axis of every node, after every pass.
  static const std::vector<std::vector<PlacementRule>> kParsed = [] {
    std::vector<std::vector<PlacementRule>> parsed;
    for (const auto& [kind, texts] : rule_texts()) {
      const auto at = static_cast<size_t>(kind);
      if (parsed.size() <= at) parsed.resize(at + 1);
      for (const std::string& text : texts) parsed[at].push_back(parse_rule(text));
    }
    return parsed;
  }();
  const auto at = static_cast<size_t>(op);
  if (at >= kParsed.size()) return {};
  return kParsed[at];
}

}  // namespace tessera
