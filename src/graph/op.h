// The operations of a training step. What there is to know about each is its row in the table
// (op_table.h); the names and attributes are here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/dropout.h"
#include "base/float8.h"
#include "graph/type.h"

namespace tessera {

enum class OpKind : uint8_t {
  // sources and structure; none of them computes
  kInput,      // tokens, labels
  kParameter,  // the storage of a bucket
  kViews,      // bucket -> the weights inside it
  kPack,       // gradients of the weights -> gradient of the bucket
  kSlice,      // tokens -> chunks of tokens
  kConcat,     // chunks of tokens -> tokens
  kCast,       // changes placements: the only op that communicates
  // forward
  kEmbedding,
  kRmsNorm,
  kAddRmsNorm,  // made from kAdd and kRmsNorm by a pass
  kLinear,
  kRope,
  kAttention,
  kSwiGlu,
  kAdd,
  kDropout,  // its gradient is the same op: the mask is drawn again
  kCrossEntropyStats,
  kCrossEntropyLoss,
  // backward: Dx are input gradients, Dw weight gradients
  kEmbeddingDw,
  kRmsNormDx,
  kRmsNormDw,
  kLinearDx,
  kLinearDw,
  kAttentionGrad,
  kSwiGluGrad,
  kCrossEntropyGrad,
  // biases, LayerNorm, GELU, learned positions, norms of heads; forward, then backward
  kAddBias,
  kLayerNorm,
  kAddLayerNorm,  // made from kAdd and kLayerNorm by a pass
  kGelu,
  kAddPositions,
  kHeadNorm,
  kBiasDw,
  kLayerNormDx,
  kLayerNormDw,
  kGeluGrad,
  kPositionsDw,
  kHeadNormDx,
  kHeadNormDw,
  // optimizer step
  kSumSquares,
  kMetrics,
  kAdamW,
  kTieSum,  // gradients of a tied weight that lives on the first and on the last stage
  // experts: forward, then backward
  kRouter,
  kRouterStats,
  kDispatch,
  kExpertLinear,
  kExpertSwiGlu,
  kCombine,
  kBalanceTotals,
  kBalanceLoss,
  kRouterGrad,
  kRouterStatsGrad,
  kDispatchGrad,
  kExpertLinearDx,
  kExpertLinearDw,
  kExpertSwiGluGrad,
  kCombineGrad,
  kBalanceGrad,
  // context parallelism: ring_attention.h makes them from kAttention and kAttentionGrad
  kAttentionPart,      // attention to the keys of one rank, merged with that to others
  kAttentionGradPart,  // its gradient
  kShift,              // every rank's value goes to the next rank of an axis; communicates
  kConvert,            // accumulate type -> storage type
  // movement that lowering adds; never in a graph
  kZero,
  kCopy,
  kAccumulate,
  kSend,          // to another stage
  kReceive,       // from another stage
  kSplitColumns,  // before an all-to-all: the columns of each rank together
  kJoinColumns,   // behind one: the columns of all ranks side by side
  kCountTokens,   // unmasked labels of every update of a step
  // products with what follows them (compile/lower/fuse_products.h); never in a graph
  kLinearBias,    // and kAddBias, and kGelu where it has a second output
  kLinearDxGelu,  // and kGeluGrad
  kLinearDwBias,  // and kBiasDw
  // gradients of one norm (compile/lower/fuse_norm_gradients.h); never in a graph
  kLayerNormDwBias,  // kLayerNormDw and kBiasDw
  kLayerNormGrad,    // and kLayerNormDx
  kRmsNormGrad,      // kRmsNormDx and kRmsNormDw
  kSgd,              // as kAdamW
  kJoinLanes,        // sums of lanes -> metrics
  // serving: tokens of any sequences, whose keys and values lie in the pages of a cache
  kCache,              // source: the pages of a layer, kept from step to step
  kServeLinear,        // kLinear with the same bits for any number of tokens
  kServeExpertLinear,  // likewise
  kServeLogits,        // logits of each rank's part of the vocabulary, in the accumulate type
  kRopeAt,             // kRope at given positions
  kPositionsAt,        // kAddPositions at given positions
  kCacheWrite,         // rotated keys, and values, into their pages
  kPagedAttention,     // kAttention to the keys in the pages of each sequence
  kTakeRows,           // some tokens of all
  // products of 8 bits: compile/passes/quantise_products.h makes them from products
  kAmax,       // the largest size of what shares a scale
  kQuantise,   // matrix -> codes of 8 bits
  kFp8Linear,  // kLinear of codes; the next two likewise
  kFp8LinearDx,
  kFp8LinearDw,
  kEnd,  // how many there are; no op
};
constexpr size_t kNumOps = static_cast<size_t>(OpKind::kEnd);
constexpr size_t index_of(OpKind op) { return static_cast<size_t>(op); }

std::string_view name_of(OpKind op);

// Whether it is an optimizer's update of weights.
constexpr bool updates_weights(OpKind op) { return op == OpKind::kAdamW || op == OpKind::kSgd; }

// Whether it is a product of codes of 8 bits.
constexpr bool multiplies_codes(OpKind op) {
  return op == OpKind::kFp8Linear || op == OpKind::kFp8LinearDx || op == OpKind::kFp8LinearDw;
}

// F forward, I input gradients, W weight gradients, G gradient reduction, U update, R forward
// computed again for the backward.
enum class Pass : uint8_t { kForward, kInputGrad, kWeightGrad, kReduce, kUpdate, kRecompute };
std::string_view name_of(Pass pass);  // "F", "I", "W", "G", "U", "R"

// What ops of a mixture of experts need.
struct ExpertAttrs {
  DType dtype = DType::kF32;  // router: storage type of the activations
  int64_t experts = 0;        // of the model
  int64_t per_token = 0;
  int64_t peers = 1;      // ranks that share the experts
  int64_t sources = 1;    // ranks with different tokens
  int64_t capacity = 0;   // rows that a source can send to one peer
  int64_t sequences = 0;  // of all replicas, in one micro-batch
  int64_t layer = 0, layers = 0;
  int64_t group = 1;  // sequences whose tokens the load-balancing loss takes means over
  double coef = 0;    // of the load-balancing loss
  friend bool operator==(const ExpertAttrs&, const ExpertAttrs&) = default;
};

// Values that some ops need; each op reads only its own.
struct Attrs {
  AxisSet axes;                        // cast
  Placement to;                        // cast
  int64_t heads = 0;                   // attention: query heads; rope, head_norm: heads to treat
  int64_t kv_heads = 0;                // attention
  int64_t head_dim = 0;                // attention, rope, head_norm
  int64_t seq_len = 0;                 // attention, rope, positions, dropout
  bool inverse = false;                // rope
  double eps = 0;                      // norms
  int64_t rows = 0;                    // embedding_dw, positions_dw: of the table, with padding
  int64_t vocab = 0;                   // embedding, cross entropy: vocabulary without padding
  int64_t parts = 1;                   // cross_entropy_stats: parts of the vocabulary
  double dropout = 0;                  // dropout, attention: share that becomes zero
  DropoutSite site{};                  // dropout, attention
  int bucket = -1;                     // parameter, views, pack, adamw
  int64_t window = 0;                  // attention: keys that a query sees; 0: all before it
  std::vector<int64_t> lengths;        // slice: tokens of each chunk (all ranks)
  std::vector<TensorType> view_types;  // views: types of the weights
  ExpertAttrs experts;
  int64_t hop = 0;            // attention_part: kv is that of the rank so far back on cp
  DType dtype = DType::kF32;  // convert; fp8 products: of what is computed
  bool narrow = false;        // weight gradients: stored in the type of the activations
  int64_t column_groups = 1;  // cast S(0) <-> S(1): columns split in so many equal groups
  int64_t page_size = 0;      // cache_write, paged_attention: tokens of a page
  // serve_linear, serve_logits: parts of the inner dimension, whole, that are summed by themselves
  // and then along a binary tree (base/sum_chunks.h).
  int64_t chunks = 1;
  std::array<Scaling, 2> scaling;  // amax, quantise: of the matrix; fp8 products: of both factors
  Shape scales;                    // amax: how many scales the matrix has, down and across
  friend bool operator==(const Attrs&, const Attrs&) = default;
};

// What may stand on one axis: input placements -> output placements. Written as text in the rows.
struct PlacementRule {
  std::vector<Placement> inputs;
  std::vector<Placement> outputs;
  AxisSet axes = AxisSet::all();  // on which it holds
};
std::span<const PlacementRule> placement_rules(OpKind op);

// Axes that split tokens, and whose ranks share weights: dp, fsdp and cp.
constexpr AxisSet data_axes() { return sample_axes().with(Axis::kCp); }
bool is_data_axis(Axis axis);

// Ops that an instruction of the comm or pipe stream has.
bool is_communication(OpKind op);

// Ops whose first output may be added to a value that exists already (the optional last input).
bool can_accumulate(OpKind op);

}  // namespace tessera
