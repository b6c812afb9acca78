// The keys of an engine file: what each number is, its unit, and where it may lie.
#pragma once

#include <array>
#include <string_view>

#include "cost/engine/engine.h"

namespace tessera {

struct EngineKey {
  std::string_view name;
  double EngineNumbers::*field;
  std::string_view unit;
  double least, most;
  std::string_view what;
};

// A pass reads or writes one [tokens, hidden] in the type of activations, unless it says otherwise.
inline constexpr std::array kEngineKeys = {
    EngineKey{"half_tile_rate", &EngineNumbers::half_tile_rate, "share", 0.01, 1,
              "rate of product tiles of half the rows"},
    EngineKey{"quarter_tile_rate", &EngineNumbers::quarter_tile_rate, "share", 0.01, 1,
              "rate of product tiles of a quarter of the rows"},
    EngineKey{"eighth_tile_rate", &EngineNumbers::eighth_tile_rate, "share", 0.01, 1,
              "rate of product tiles of a quarter of the rows and half of the columns"},
    EngineKey{"flash_backward_products", &EngineNumbers::flash_backward_products, "products", 0.5,
              10, "products of fused attention backward, for each of forward"},
    EngineKey{"attention_fill", &EngineNumbers::attention_fill, "keys", 0, 1e5,
              "keys that every part of a ring costs beside its own"},
    EngineKey{"ring_merge_bytes", &EngineNumbers::ring_merge_bytes, "bytes/element", 0, 100,
              "to add the result of one part of a ring to the sum"},
    EngineKey{"score_bytes_forward", &EngineNumbers::score_bytes_forward, "bytes/score", 0, 1000,
              "that unfused attention moves forward"},
    EngineKey{"score_bytes_backward", &EngineNumbers::score_bytes_backward, "bytes/score", 0, 1000,
              "that unfused attention moves backward"},
    EngineKey{"head_fill", &EngineNumbers::head_fill, "columns", 0, 1e5,
              "a head of d columns costs unfused attention's products as much as d + this"},
    EngineKey{"hidden_passes_forward", &EngineNumbers::hidden_passes_forward, "passes", 0, 1000,
              "of a layer's norms, biases, dropouts and residuals"},
    EngineKey{"hidden_passes_backward", &EngineNumbers::hidden_passes_backward, "passes", 0, 1000,
              "the same, backward"},
    EngineKey{"attention_passes_forward", &EngineNumbers::attention_passes_forward, "passes", 0,
              1000, "over queries, keys, values and output: rotations, transpositions, copies"},
    EngineKey{"attention_passes_backward", &EngineNumbers::attention_passes_backward, "passes", 0,
              1000, "the same, backward"},
    EngineKey{"embedding_passes_forward", &EngineNumbers::embedding_passes_forward, "passes", 0,
              1000, "of the embedding"},
    EngineKey{"embedding_passes_backward", &EngineNumbers::embedding_passes_backward, "passes", 0,
              1000, "of the embedding's gradient"},
    EngineKey{"logit_traffic_bytes", &EngineNumbers::logit_traffic_bytes, "bytes/logit", 0, 1000,
              "that the loss moves, forward and backward"},
    EngineKey{"fused_logit_traffic_bytes", &EngineNumbers::fused_logit_traffic_bytes, "bytes/logit",
              0, 1000, "the same where the loss is fused or cut into chunks"},
    EngineKey{"fused_head_products", &EngineNumbers::fused_head_products, "products", 1, 3,
              "how often a fused or chunked loss computes the logits"},
    EngineKey{"quantize_bytes", &EngineNumbers::quantize_bytes, "bytes/element", 0, 100,
              "to quantize an input of a product of 8 or 4 bits"},
    EngineKey{"added_gradient_bytes", &EngineNumbers::added_gradient_bytes, "bytes/weight", 0, 100,
              "of a micro-batch's gradient where a kernel adds it to the sum"},
    EngineKey{"gradient_sum_passes", &EngineNumbers::gradient_sum_passes, "passes over the sum", 0,
              100, "of the same kernel"},
    EngineKey{"gradient_norm_passes", &EngineNumbers::gradient_norm_passes,
              "passes over the gradients", 0, 100, "before the update: their norm, their scaling"},
    EngineKey{"optimizer_bytes", &EngineNumbers::optimizer_bytes, "bytes/weight", 0, 1000,
              "that an update moves besides the gradient"},
    EngineKey{"expert_row_unit", &EngineNumbers::expert_row_unit, "rows", 1, 4096,
              "that rows of an expert are padded to"},
    EngineKey{"expert_row_passes", &EngineNumbers::expert_row_passes, "passes", 0, 1000,
              "over the rows of experts, one for each choice of a token"},
    EngineKey{"exchanged_passes", &EngineNumbers::exchanged_passes, "passes", 0, 1000,
              "over the copies of tokens that travel"},
    EngineKey{"host_ops_forward", &EngineNumbers::host_ops_forward, "ops/layer", 0, 1e5,
              "that the host issues forward"},
    EngineKey{"host_ops_backward", &EngineNumbers::host_ops_backward, "ops/layer", 0, 1e5,
              "that the host issues backward"},
    EngineKey{"host_ops_experts", &EngineNumbers::host_ops_experts, "ops/layer", 0, 1e5,
              "more in a layer with experts, in each direction"},
    EngineKey{"host_ops_waiting", &EngineNumbers::host_ops_waiting, "ops/layer", 0, 1e5,
              "issued for the experts' exchange while the device waits"},
    EngineKey{"host_ops_per_expert", &EngineNumbers::host_ops_per_expert, "ops/expert", 0, 1e4,
              "issued for each expert of a rank while the device waits"},
    EngineKey{"host_ops_per_quantized_expert", &EngineNumbers::host_ops_per_quantized_expert,
              "ops/expert", 0, 1e4, "the same in 8 bits"},
    EngineKey{"kernels_wait_for_host", &EngineNumbers::kernels_wait_for_host, "0 or 1", 0, 1,
              "1: kernels start when the host has issued them; 0: it runs ahead"},
    EngineKey{"sequence_gathers_backward", &EngineNumbers::sequence_gathers_backward,
              "exchanges/pair", 0, 10,
              "over tp, backward, of a pair of products split by sequence"},
    EngineKey{"overlap_window", &EngineNumbers::overlap_window, "share", 0, 1,
              "of the kernels' time that communication can hide behind"},
    EngineKey{"overlap_slowdown", &EngineNumbers::overlap_slowdown, "share", 0, 1,
              "of hidden communication that kernels beside it lose"},
    EngineKey{"message_slowdown", &EngineNumbers::message_slowdown, "share", 0, 1,
              "of a message between stages that kernels beside it lose"},
    EngineKey{"tensor_overlap_share", &EngineNumbers::tensor_overlap_share, "share", 0, 1,
              "of tp's communication that has a product beside it, where they overlap"},
    EngineKey{"last_bucket", &EngineNumbers::last_bucket, "share", 0, 1,
              "of the sum of gradients that stays exposed however long backward is"},
    EngineKey{"turn_units", &EngineNumbers::turn_units, "[tokens, hidden]", 0, 1000,
              "in memory between forward and backward of the head"},
    EngineKey{"expert_units", &EngineNumbers::expert_units, "[rows, hidden]", 0, 1000,
              "in memory during backward of a layer with experts"},
    EngineKey{"backward_units", &EngineNumbers::backward_units, "[tokens, hidden]", 0, 1000,
              "in memory during backward of a dense layer"},
    EngineKey{"logit_bytes", &EngineNumbers::logit_bytes, "bytes/logit", 0, 1000,
              "in memory at the loss"},
    EngineKey{"fused_logit_bytes", &EngineNumbers::fused_logit_bytes, "bytes/logit", 0, 1000,
              "the same where the loss is fused"},
    EngineKey{"gathered_units", &EngineNumbers::gathered_units, "layers", 1, 100,
              "whose gathered weights ZeRO-3 holds at once"},
    EngineKey{"workspace_bytes", &EngineNumbers::workspace_bytes, "bytes", 0, 1e13,
              "of libraries, whatever the run"},
};

}  // namespace tessera
