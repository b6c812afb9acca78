// What the user says: the model, the split, the training run. Plain values with defaults; reading
// and checking them is in run_file.h and validate.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "spec/choices.h"

namespace tessera {

struct RopeSpec {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kDefault;
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position = 8192;
};

struct ModelSpec {
  std::string preset;  // name in the catalogue, a file that ends in .toml, or empty
  std::string hf;      // Hugging Face folder the weights come from, or empty
  ModelFamily family = ModelFamily::kLlama;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: same as heads
  int64_t head_dim = 0;  // 0: hidden / heads
  int64_t vocab = 0;
  bool tied = false;  // the head shares the embedding's weights
  double norm_eps = 1e-5;
  double init_std = 0.02;
  RopeSpec rope;
  // mixtral: every MLP is a set of experts of which a router chooses some for each token
  int64_t experts = 0;  // 0: none
  int64_t experts_per_token = 2;
  int64_t moe_ffn = 0;         // width of an expert; 0: ffn
  double router_aux_coef = 0;  // of the load-balancing loss
  // What the blocks are made of. A family sets all of it; a run file may change it one by one.
  NormKind norm = NormKind::kRms;
  MlpKind mlp = MlpKind::kSwiglu;
  PositionKind positions = PositionKind::kRope;
  int64_t max_positions = 0;  // rows of the learned table; 0: train.seq_len
  AttentionBias attention_bias = AttentionBias::kNone;
  bool mlp_bias = false;
  bool qk_norm = false;        // RMSNorm of every query and key head
  int64_t sliding_window = 0;  // keys that a query sees, its own included; 0: all before it
  // What can be planned but not trained (spec/run_file/trainable.h). Latent attention (DeepSeek):
  // queries, and keys with values, pass through narrow products; head_dim then counts both kinds of
  // columns.
  int64_t kv_rank = 0;          // width between the products of keys and values; 0: none
  int64_t query_rank = 0;       // of queries; 0: one product
  int64_t rope_head_dim = 0;    // columns of a head that have positions, for keys one for all heads
  int64_t value_head_dim = 0;   // 0: head_dim
  int64_t shared_ffn = 0;       // width of all experts together that every token passes
  int64_t dense_layers = 0;     // first layers that have an MLP of width ffn instead of experts
  int64_t mtp_layers = 0;       // further layers that predict later tokens
  bool parallel_block = false;  // attention and MLP beside each other, after one norm (PaLM)
  bool embedding_norm = false;  // a norm after the embedding (BLOOM)
  // Shares of elements that training sets to zero.
  double dropout = 0;            // of the embedding and of what each half of a block adds
  double attention_dropout = 0;  // of the attention probabilities
};

struct ParallelSpec {
  int64_t pp = 1, dp = 1, fsdp = 1, cp = 1, tp = 1;
  int64_t zero = -1;  // -1: 3 when fsdp > 1, else 0; resolved by validate()
  bool sequence_parallel = false;
  int64_t bucket_mb = 25;  // a gradient bucket closes once it is this large
  GradReduce grad_reduce = GradReduce::kAuto;
  ContextKind cp_kind = ContextKind::kRing;
  int64_t prefetch = 1;     // ZeRO-3: how many units ahead are gathered
  int64_t unit_blocks = 1;  // ZeRO-3: blocks of a stage that are gathered together
  // ZeRO-3: gathered weights are given back after each use and gathered again for the backward;
  // otherwise they are gathered once and kept to the end of the step.
  bool release_after_forward = true;
  bool overlap = true;  // false: kernels wait for every collective before them; the same bits
  // What backward computes again instead of keeping it, as recompute.h reads it.
  std::string recompute = "none";

  PipelineChoice schedule = PipelineKind::k1F1B;
  std::string schedule_csv = "";  // the text of that file
  int64_t virtual_stages = 0;     // stages of a pipeline rank; 0: as many as the schedule needs
  // Blocks of each stage, in order; empty: as equal as they can be.
  std::vector<int64_t> stage_layers;
  // interleaved: micro-batches between changes of stage, 0: pp. pipedream-2bw: micro-batches of an
  // update, 0: the fewest that can be.
  int64_t schedule_group = 0;
  int64_t ep = 1;  // ranks that share the experts, taken from tp, cp and fsdp
  // Rows that a rank can send to another in one MoE layer, as a multiple of an even spread over
  // ep; 0: the worst case, so that no step can fail.
  double moe_capacity = 0;

  [[nodiscard]] int64_t world() const { return pp * dp * fsdp * cp * tp; }
  [[nodiscard]] int64_t replicas() const { return dp * fsdp; }  // different data
};

// Products of blocks in 8 bits (docs/numerics.md).
struct Fp8Spec {
  bool asked = false;  // train.dtype = "fp8"; the rest is bf16
  Fp8Recipe recipe = Fp8Recipe::kNone;
  int64_t block = 128;                    // block: elements of a piece, and of a side of a square
  int64_t bf16_first = 0, bf16_last = 0;  // blocks at both ends that stay as they are

  [[nodiscard]] bool on() const { return recipe != Fp8Recipe::kNone; }
};

struct TrainSpec {
  int64_t seq_len = 256;
  int64_t micro_batch = 1;   // sequences per rank and forward pass
  int64_t global_batch = 0;  // sequences per optimizer step; 0: micro_batch * dp * fsdp
  // Sums that the micro-batches of a step are dealt to, so that its bits do not depend on dp and
  // fsdp (spec/run_file/lanes.h); a power of two. 0: as dp and fsdp have it.
  int64_t lanes = 0;
  // Groups of replicas that compute the same micro-batches, each all of them, and compare their
  // gradients before the update; with lanes. 1: none.
  int64_t redundancy = 1;
  int64_t steps = 100;
  DType dtype = DType::kF32;
  Fp8Spec fp8;
  // What the gradients of weights are stored in: f32 (f64 with dtype = f64), or bf16.
  DType gradients = DType::kF32;
  uint64_t seed = 1;
  TrainDevice device = TrainDevice::kCpu;
  bool deterministic = false;  // cuda: a step repeats bit for bit
  CudaGraph cuda_graph = CudaGraph::kAuto;
  // cuda: instructions from one mark of progress to the next; 0: 1, in a graph 8.
  int64_t mark_every = 0;
  int64_t threads = 0;       // compute threads per rank; 0: cores / ranks
  int64_t loss_chunk = 512;  // tokens whose logits exist at one time
  // f16 only: what the loss's gradient is multiplied by, so that small gradients do not vanish.
  double loss_scale = 0;               // 0: dynamic
  int64_t loss_scale_interval = 1000;  // dynamic: doubled after so many steps without overflow
  int64_t loss_scale_hysteresis = 2;   // dynamic: halved from the so-many-th overflow on
  int64_t aux_group = 1;     // sequences whose tokens the load-balancing loss takes means over
  double comm_timeout = 60;  // seconds that a rank waits for another inside one collective
  // A step whose norm of the gradient or loss is so many times its mean of late, or not finite,
  // changes nothing.
  bool skip_spikes = false;
  double spike_norm = 5;      // 0: the norm may be what it is
  double spike_loss = 2;      // likewise
  int64_t spike_window = 50;  // steps that the means look back; before so many none is a spike
  int64_t spike_limit = 10;   // steps skipped one after another that end the run

  // As a run file has it.
  [[nodiscard]] std::string_view dtype_name() const { return fp8.asked ? "fp8" : name_of(dtype); }
  [[nodiscard]] DType gradient_type() const {
    const bool narrow = gradients == DType::kBF16 && dtype == DType::kBF16;
    return narrow ? DType::kBF16 : accumulate_type(dtype);
  }
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double lr = 3e-4;
  int64_t warmup = 0;  // steps of linear warm-up
  LrSchedule schedule = LrSchedule::kCosine;
  double min_lr = 0.0;
  // wsd: the last steps, in which the rate falls, as a number or as a share of all; both 0: a tenth
  // of them.
  int64_t decay_steps = 0;
  double decay_share = 0;
  double beta1 = 0.9, beta2 = 0.95;  // adamw
  double eps = 1e-8;                 // adamw
  double momentum = 0;               // sgd
  bool nesterov = false;             // sgd
  double weight_decay = 0.1;
  DecayOn weight_decay_on = DecayOn::kMatrices;
  // Names of tensors for which this is not so: as spec/name_patterns.h reads them.
  std::string weight_decay_also;
  std::string weight_decay_not;
  double clip = 1.0;  // global norm; 0: off

  // Numbers that it keeps of every weight, beside a master copy.
  [[nodiscard]] int64_t states() const {
    if (kind == OptimizerKind::kAdamW) return 2;
    return momentum > 0 ? 1 : 0;
  }
};

// A set of tokens (docs/data.md) of a mixture.
struct DataPart {
  std::string path;
  double weight = 1;  // its share of the samples, beside the other parts'
};

// What an evaluation measures: a text, a set of tokens, or conversations.
struct ValidSet {
  std::string name;  // in metrics; empty: it is the only one
  std::string path;
};

struct DataSpec {
  std::string path;   // text file or folder, whose bytes are tokens; empty: synthetic stories
  std::string chats;  // conversations instead, one JSON object a line
  // Sets of tokens instead: the folder of `tessera data prepare`, or the prefix of Megatron's
  // files.
  std::string train;
  std::vector<DataPart> mix;  // instead of `train`
  // What [eval] measures, of the same kind, in the order of names; empty: other stories than those
  // of training.
  std::vector<ValidSet> valid;
  // A folder, of sets or conversations; empty: the model folder's, else the set's own.
  std::string tokenizer;
  uint64_t synth_seed = 1;
  int64_t synth_bytes = 4'000'000;
  bool document_mask = false;  // attention stays inside a document
  int64_t end_token = -1;      // that ends a document; -1: as the data says

  [[nodiscard]] bool is_sets() const { return !train.empty() || !mix.empty(); }
};

// Loss on text that the run does not train on.
struct EvalSpec {
  int64_t every = 0;    // steps from one to the next; 0: never
  int64_t batches = 0;  // of global_batch sequences; 0: all of the text
};

struct ClusterSpec {
  double memory_gib = 0;  // per rank, for plan --check; 0: this machine's share
};

struct LoggingSpec {
  std::string run_dir = "runs/run";
  int64_t every = 1;         // steps between lines of metrics.jsonl
  bool tensorboard = false;  // also write an event file for TensorBoard
};

// Saves that a run can go on from.
struct CheckpointSpec {
  int64_t every = 0;         // steps from one to the next; 0: not by steps
  double every_minutes = 0;  // likewise by the clock; 0: not
  int64_t keep = 3;          // the newest so many stay
  int64_t keep_every = 0;    // and every step that is a multiple of it; 0: none
  bool async = true;         // steps go on while a save is written
  int64_t memory_every = 0;  // steps from one snapshot in memory to the next; 0: none
  double memory_gib = 0;     // most that a rank takes for copies; 0: as much as they need
  std::string dir;           // empty: "checkpoints" in the run directory

  [[nodiscard]] bool on() const { return every > 0 || every_minutes > 0; }
};

struct RunSpec {
  ModelSpec model;
  ClusterSpec cluster;
  ParallelSpec parallel;
  TrainSpec train;
  OptimizerSpec optimizer;
  DataSpec data;
  EvalSpec eval;
  CheckpointSpec checkpoint;
  LoggingSpec logging;
};

}  // namespace tessera
