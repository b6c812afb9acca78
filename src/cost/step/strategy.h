// What is asked of the cost model: a workload, which stays, and a strategy, which a search varies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/engine/engine.h"
#include "cost/hardware/cluster.h"
#include "cost/step/model_shape.h"
#include "spec/choices.h"

namespace tessera {

enum class ElementwiseAgain : uint8_t { kNone, kNorms, kNormsAndActivations };
enum class AttentionKind : uint8_t {
  kFlash,          // one kernel per pass, written for the device: cuDNN, FlashAttention 3
  kPortableFlash,  // one kernel per pass, as it was written for an older device: Triton, version 2
  kUnfused,
};
// Which axes are near each other on the devices, innermost first; cp is always within dp.
enum class RankOrder : uint8_t {
  kTensorDataPipeline,
  kTensorPipelineData,
  kDataTensorPipeline,
  kPipelineTensorData,
};
inline constexpr int kNumRankOrders = 4;
std::string_view name_of(AttentionKind kind);
std::string_view name_of(RankOrder order);  // "tp,cp,dp,pp"

// Bytes of what training keeps for a parameter, and the format of products.
struct PrecisionChoice {
  MathType products = MathType::kF16;
  int64_t parameter_bytes = 2;  // as products read them
  int64_t gradient_bytes = 4;   // as they are kept and summed
  int64_t state_bytes = 12;     // master copy and two moments
  int64_t activation_bytes = 2;
  // A kernel adds a micro-batch's gradients to the sum; otherwise the product that makes them does,
  // which hides it.
  bool adds_gradients_apart = false;
};

// What of communication runs beside kernels.
struct OverlapChoice {
  bool data = true;       // sums of gradients, gathering of weights
  bool tensor = false;    // within a pair of products
  bool pipeline = false;  // sends of activations
  bool experts = false;   // all-to-all
};

struct Workload {
  ModelShape model;
  Cluster cluster;
  int64_t seq_len = 0;
  int64_t global_batch = 0;  // sequences of a step
  AttentionKind attention = AttentionKind::kFlash;
  PrecisionChoice precision;
  OverlapChoice overlap;
  bool fused_loss = false;  // logits are never kept in 32 bits
  int64_t loss_chunk = 0;   // tokens whose logits exist at one time, where the engine cuts the loss
  EngineNumbers engine;     // of find_engine(); one that nobody set is refused
};

struct Strategy {
  int64_t tp = 1, pp = 1, dp = 1, cp = 1, ep = 1;
  int64_t expert_tp = 1;       // how many ranks share one expert
  int64_t virtual_stages = 1;  // of a pipeline rank
  int64_t zero = 0;            // 0 to 3
  int64_t shard = 0;           // ranks that share the states (HSDP); 0: all of dp * cp
  bool sequence_parallel = false;
  int64_t micro_batch = 1;
  Recompute recompute = Recompute::kNone;  // norms and light are priced as none
  // Full: how many layers of every pipeline rank are computed again; -1: all.
  int64_t recompute_layers = -1;
  ContextKind context = ContextKind::kRing;
  PipelineKind schedule = PipelineKind::k1F1B;
  bool release_after_forward = true;       // ZeRO-3
  std::vector<int64_t> stage_layers = {};  // by stage, pp * virtual_stages of them; empty: even
  // Full: by stage, pp * virtual_stages of them, how many layers are computed again; empty:
  // recompute_layers of every pipeline rank.
  std::vector<int64_t> stage_recompute = {};
  RankOrder order = RankOrder::kTensorDataPipeline;
  // Beside `recompute`, where it is not full: norms, and norms with activation functions, that
  // every layer computes again at the speed of the memory.
  ElementwiseAgain elementwise_again = ElementwiseAgain::kNone;
  // The pipeline fills and drains with every micro-batch instead of once in a step.
  bool one_micro_batch_at_a_time = false;

  friend bool operator==(const Strategy&, const Strategy&) = default;
  [[nodiscard]] int64_t world() const { return tp * pp * dp * cp; }
};

// Devices between neighbours of an axis. Neighbours in cp are neighbours in the data.
struct AxisStrides {
  int64_t tp = 1, data = 1, pp = 1;
};
AxisStrides strides_of(const Strategy& strategy);

// Devices between ranks that share the experts of a layer, and between ranks that have the same
// expert; 0 where they would not be at equal distances in this order of ranks.
struct ExpertStrides {
  int64_t ep = 0, replicas = 0;
};
ExpertStrides expert_strides_of(const Strategy& strategy);

// Empty, or why the strategy cannot be for this workload: names the value and a fix.
std::string why_impossible(const Workload& workload, const Strategy& strategy);

}  // namespace tessera
