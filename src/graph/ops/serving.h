// Serving: a flat list of tokens of any sequences, whose keys and values lie in the pages of a
// cache. Nothing here has a gradient. A cache is [pages, 2 * kv_heads * page_size * head_dim]; the
// columns of a page are keys, then values, each by head, token and column, so that a split of the
// columns over tp is one of the heads. Integers say which tokens: positions[T], slots[T],
// first_row[N + 1], kv_len[N], pages[N, P], rows[R] (ServeBuffers of compile/program/program.h).
#pragma once

#include "graph/ops/common.h"
#include "graph/ops/expert_rows.h"
#include "graph/ops/structure.h"

namespace tessera::ops {

inline void want_integers(const Operands& o, size_t from) {
  for (size_t i = from; i < o.size(); ++i) {
    o.want(o.in(i).dtype == DType::kI32, "needs integers that say which tokens");
  }
}
inline Types serve_linear_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  o.want(o.dim(0, 1) == o.dim(1, 1), "inner dimensions differ");
  return {{o.attrs().dtype, {o.dim(0, 0), o.dim(1, 0)}, {}}};
}
inline Types serve_logits_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  o.want(o.dim(0, 1) == o.dim(1, 1), "inner dimensions differ");
  const int64_t parts = o.attrs().parts;
  o.want(o.dim(1, 0) % parts == 0, "the vocabulary does not divide");
  return {{o.wide(0), {parts, o.dim(0, 0), o.dim(1, 0) / parts}, {}}};
}
inline Types rope_at_types(const Operands& o) {
  o.want_matrix(0);
  o.want(o.dim(1, 0) == o.dim(0, 0), "needs a position for each token");
  want_integers(o, 1);
  return {o.like(0)};
}
inline Types positions_at_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  o.want(o.dim(0, 1) == o.dim(1, 1), "the table must match the width");
  o.want(o.dim(2, 0) == o.dim(0, 0), "needs a position for each token");
  want_integers(o, 2);
  return {o.like(0)};
}
inline Types cache_write_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  o.want(o.dim(0, 1) == o.dim(1, 1) * o.attrs().page_size, "a page must hold its tokens");
  o.want(o.dim(2, 0) == o.dim(1, 0) && o.dim(3, 0) == o.dim(1, 0),
         "needs a position and a slot for each token");
  want_integers(o, 2);
  return {o.like(0)};
}
inline Types paged_attention_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1), o.want_matrix(4);
  const Attrs& a = o.attrs();
  o.want(o.dim(0, 1) == a.heads * a.head_dim, "needs the heads of every token");
  o.want(o.dim(1, 1) == 2 * a.kv_heads * a.page_size * a.head_dim, "a page must hold its tokens");
  o.want(o.dim(2, 0) == o.dim(3, 0) + 1 && o.dim(4, 0) == o.dim(3, 0),
         "needs rows, a length and pages for each sequence");
  want_integers(o, 2);
  return {o.like(0)};
}
inline Types take_rows_types(const Operands& o) {
  o.want_matrix(0);
  want_integers(o, 1);
  return {{o.in(0).dtype, {o.dim(1, 0), o.dim(0, 1)}, {}}};
}

inline int64_t cpu_serve_linear(const KernelSizes& s) {
  return workspace::serve_linear(s.dtype, s.in(0)[0], s.in(0)[1], s.attrs->chunks, s.threads);
}
inline int64_t cpu_serve_expert_linear(const KernelSizes& s) {
  return workspace::serve_linear(s.dtype, s.attrs->experts.capacity, s.in(1)[2], s.attrs->chunks,
                                 s.threads);
}
inline int64_t cpu_paged_attention(const KernelSizes& s) {
  return workspace::paged_attention(s.dtype, s.attrs->head_dim, s.threads);
}

inline constexpr OpRow kServingOps[] = {
    structure(OpKind::kCache, "cache", "> cache", given_type, no_gradient, Place::kElsewhere),
    {.kind = OpKind::kServeLinear,
     .name = "serve_linear",
     .signature = "x weight > y",
     .types = serve_linear_types,
     .rules = {"I I > I", "S0 R > S0", "R S0 > S1", "S1 S1 > P", "R R > R"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kProducts,
     .cost = {.product = Product::kRows},
     .kernel = {.cpu_scratch = cpu_serve_linear}},
    expert_rows(OpKind::kServeExpertLinear, "serve_expert_linear", no_gradient,
                cpu_serve_expert_linear),
    // [parts of the vocabulary, rows, columns of a part]
    {.kind = OpKind::kServeLogits,
     .name = "serve_logits",
     .signature = "x weight > logits",
     .types = serve_logits_types,
     .rules = {"I I > I", "R S0 > S0", "tokens S0 R > S1"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kProducts,
     .cost = {.product = Product::kRows},
     .kernel = {.cpu_scratch = cpu_serve_linear}},
    {.kind = OpKind::kRopeAt,
     .name = "rope_at",
     .signature = "x positions > y",
     .types = rope_at_types,
     .rules = {"I I > I", "R R > R", "S1 R > S1", "tokens S0 S0 > S0"},
     .gradient = no_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations,
     .kernel = {.numbers = KernelNumbers::kHeads, .extra = ExtraOperands::kRopeTables}},
    {.kind = OpKind::kPositionsAt,
     .name = "positions_at",
     .signature = "x table positions > y",
     .types = positions_at_types,
     .rules = {"I I I > I", "I I R > I", "S0 R S0 > S0"},
     .gradient = no_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kEmbedding},
    {.kind = OpKind::kCacheWrite,
     .name = "cache_write",
     .signature = "cache kv positions slots > cache",
     .types = cache_write_types,
     .rules = {"I I I I > I", "R R R R > R", "S1 S1 R R > S1", "tokens S0 S0 S0 S0 > S0"},
     .gradient = no_gradient,
     .storage = Place::kFirstInput,
     .adds = Adds::kNever,
     .op_class = OpClass::kAttention,
     .kernel = {.numbers = KernelNumbers::kHeads, .extra = ExtraOperands::kRopeTables}},
    {.kind = OpKind::kPagedAttention,
     .name = "paged_attention",
     .signature = "q cache first_row kv_len pages > o",
     .types = paged_attention_types,
     .rules = {"I I I I I > I", "S1 S1 R R R > S1", "S1 R R R R > S1",
               "tokens S0 S0 S0 S0 S0 > S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kAttention,
     .kernel = {.numbers = KernelNumbers::kAttention, .cpu_scratch = cpu_paged_attention}},
    {.kind = OpKind::kTakeRows,
     .name = "take_rows",
     .signature = "x rows > y",
     .types = take_rows_types,
     .rules = {"I I > I", "I R > I", "S0 S0 > S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kMovement},
};

}  // namespace tessera::ops
