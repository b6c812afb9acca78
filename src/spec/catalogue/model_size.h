// How many parameters a model has, in closed form: also for models that no program computes. For
// those that one does, the layout of parameters has the same number (tested).
#pragma once

#include <cstdint>

#include "spec/run_spec.h"

namespace tessera {

// Parameters of one layer, but `total` and `active`. `model` must have its head_dim and kv_heads.
struct ModelSize {
  int64_t attention = 0;    // with the norms inside
  int64_t norms = 0;        // before attention and MLP
  int64_t dense_mlp = 0;    // of a layer without experts
  int64_t experts = 0;      // of a layer with them: router, experts, those for every token
  int64_t passed = 0;       // of `experts`: what one token passes
  int64_t dense_count = 0;  // layers without experts
  int64_t moe_count = 0;
  int64_t prediction = 0;  // of all layers that predict later tokens
  int64_t tables = 0;      // embedding, learned positions and the norm after them
  int64_t head = 0;        // final norm, and the output matrix where it is not the embedding's
  int64_t total = 0;
  int64_t active = 0;  // that one token meets
};

ModelSize model_size(const ModelSpec& model);

// Columns of queries and keys, and of values, of one head.
int64_t key_columns(const ModelSpec& model);
int64_t value_columns(const ModelSpec& model);
bool gated(const ModelSpec& model);  // two projections up

}  // namespace tessera
