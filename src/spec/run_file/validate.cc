#include "spec/run_file/validate.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/entry.h"
#include "spec/families.h"
#include "spec/nearby.h"
#include "spec/recompute.h"
#include "spec/run_file/asynchronous.h"
#include "spec/run_file/lanes.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/validate_data.h"
#include "spec/run_file/validate_experts.h"
#include "spec/run_file/validate_fp8.h"
#include "spec/run_file/validate_optimizer.h"

namespace tessera {
namespace {

// Above this, byte counts (at most 16 bytes for each element) could overflow int64_t.
constexpr double kMaxElements = 0x1p59;

void require_countable(std::string_view what, double count) {
  require_config(count <= kMaxElements, "{} is about {:.3g}, too large to count; use smaller sizes",
                 what, count);
}

double as_double(int64_t value) { return static_cast<double>(value); }

// Generous: every width of the model counts, used or not.
double parameter_estimate(const ModelSpec& m) {
  const double heads = as_double(m.heads);
  const double attention_width = heads * as_double(m.head_dim + m.value_head_dim);
  const double kv_width = as_double(m.kv_heads) * as_double(m.head_dim);
  const double ranks = as_double(m.query_rank) + as_double(m.kv_rank);
  const double mlp = 3 * (as_double(m.ffn) + as_double(m.shared_ffn)) +
                     as_double(m.experts) * (3 * as_double(m.moe_ffn) + 1);
  const double per_layer =
      as_double(m.hidden) * (2 * attention_width + 2 * kv_width + mlp + ranks + 4) +
      ranks * 2 * attention_width;
  const double embedding = as_double(m.vocab + m.max_positions) * as_double(m.hidden);
  const double layers = as_double(m.layers) + as_double(m.mtp_layers);
  return layers * per_layer + (m.tied ? 1 : 2) * embedding +
         as_double(m.mtp_layers) * 2 * as_double(m.hidden) * as_double(m.hidden);
}

void check_latent_attention(const ModelSpec& m) {
  if (m.kv_rank == 0) {
    require_config(m.query_rank == 0 && m.rope_head_dim == 0 && m.value_head_dim == 0,
                   "model.query_rank, rope_head_dim and value_head_dim are of latent attention, "
                   "which needs kv_rank; give kv_rank, or leave them out");
    return;
  }
  require_config(m.rope_head_dim < m.head_dim,
                 "model.rope_head_dim = {} must be below head_dim = {}, which counts the columns "
                 "with and without positions",
                 m.rope_head_dim, m.head_dim);
  require_config(m.kv_heads == m.heads,
                 "model.kv_heads = {} but latent attention has as many as heads = {}; leave "
                 "kv_heads out",
                 m.kv_heads, m.heads);
}

void resolve_model(ModelSpec& model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  require_config(model.heads % model.kv_heads == 0,
                 "model.heads = {} is not a multiple of kv_heads = {}; use kv_heads = {}",
                 model.heads, model.kv_heads, either(nearby_divisors(model.heads, model.kv_heads)));
  if (model.head_dim == 0) {
    require_config(model.hidden % model.heads == 0,
                   "model.hidden = {} is not a multiple of heads = {}; use hidden = {}, or give "
                   "head_dim",
                   model.hidden, model.heads, either(nearby_multiples(model.hidden, model.heads)));
    model.head_dim = model.hidden / model.heads;
  }
  require_config(model.positions != PositionKind::kRope || model.head_dim % 2 == 0,
                 "model.head_dim = {} is odd, but rotary embeddings turn pairs; use head_dim = {}",
                 model.head_dim, either(nearby_multiples(model.head_dim, 2)));
  const RopeSpec& rope = model.rope;
  require_config(
      rope.scaling != RopeScaling::kLlama3 || rope.high_freq_factor > rope.low_freq_factor,
      "model.rope_scaling: high_freq_factor = {} must be above low_freq_factor = {}",
      rope.high_freq_factor, rope.low_freq_factor);
  check_family(model);
  check_latent_attention(model);
  require_countable("the number of parameters", parameter_estimate(model));
}

void resolve_positions(RunSpec& spec) {
  ModelSpec& model = spec.model;
  if (model.positions != PositionKind::kLearned) return;
  if (model.max_positions == 0) model.max_positions = spec.train.seq_len;
  require_config(spec.train.seq_len <= model.max_positions,
                 "train.seq_len = {} is more than the model's max_positions = {}; use seq_len = "
                 "{}, or a model with more positions",
                 spec.train.seq_len, model.max_positions, model.max_positions);
}

// Every lane has as many micro-batches, whatever the number of replicas.
void resolve_lanes_batch(TrainSpec& train) {
  const int64_t unit = train.micro_batch * train.lanes;
  if (train.global_batch == 0) train.global_batch = unit;
  require_config(train.global_batch % unit == 0,
                 "train.global_batch = {} is not a multiple of micro_batch * lanes = {} * {} = {}; "
                 "use global_batch = {}",
                 train.global_batch, train.micro_batch, train.lanes, unit,
                 either(nearby_multiples(train.global_batch, unit)));
}

void resolve_batch(RunSpec& spec) {
  TrainSpec& train = spec.train;
  const ModelSpec& model = spec.model;
  const int64_t replicas = spec.parallel.replicas();
  const double widest = as_double(std::max({model.hidden, model.ffn, model.vocab}));
  const double tokens = as_double(train.micro_batch) * as_double(train.seq_len);
  require_countable("the number of activations of a micro-batch", tokens * widest);
  require_countable("micro_batch * dp * fsdp * seq_len", tokens * as_double(replicas));
  require_countable("the number of tokens of a step",
                    as_double(train.global_batch) * as_double(train.seq_len));

  check_lanes(spec);
  if (train.lanes > 0) return resolve_lanes_batch(train);
  const int64_t unit = train.micro_batch * replicas;
  if (train.global_batch == 0) train.global_batch = unit;
  require_config(train.global_batch % unit == 0,
                 "train.global_batch = {} is not a multiple of micro_batch * dp * fsdp = {} * {} * "
                 "{} = {}; use global_batch = {}",
                 train.global_batch, train.micro_batch, spec.parallel.dp, spec.parallel.fsdp, unit,
                 either(nearby_multiples(train.global_batch, unit)));
}

// A sequence is cut into 2 * cp chunks, so that causal attention costs every rank the same.
void check_context(const RunSpec& spec) {
  const ParallelSpec& parallel = spec.parallel;
  if (parallel.cp == 1) return;
  const int64_t seq_len = spec.train.seq_len;
  require_config(
      seq_len % (2 * parallel.cp) == 0,
      "parallel.cp = {} cuts sequences into {} chunks, which do not divide seq_len = {}; "
      "use seq_len = {}",
      parallel.cp, 2 * parallel.cp, seq_len, either(nearby_multiples(seq_len, 2 * parallel.cp)));
  if (parallel.cp_kind != ContextKind::kUlysses) return;
  const int64_t heads = spec.model.heads / parallel.tp;
  require_config(heads % parallel.cp == 0,
                 "cp_kind = \"ulysses\" splits the {} heads of a tp rank over cp = {}, which does "
                 "not divide them; use cp = {}, or cp_kind = \"ring\"",
                 heads, parallel.cp, either(nearby_divisors(heads, parallel.cp)));
}

void check_split(const RunSpec& spec) {
  const ParallelSpec& parallel = spec.parallel;
  const TrainSpec& train = spec.train;
  require_config(spec.model.heads % parallel.tp == 0,
                 "parallel.tp = {} does not divide heads = {}; use tp = {}", parallel.tp,
                 spec.model.heads, either(nearby_divisors(spec.model.heads, parallel.tp)));
  if (!parallel.sequence_parallel) return;
  const int64_t tokens = train.micro_batch * train.seq_len / parallel.cp;
  int64_t unit = parallel.tp / std::gcd(parallel.tp, train.micro_batch);
  if (parallel.cp > 1) unit = std::lcm(unit, int64_t{2}) * parallel.cp;
  require_config(tokens % parallel.tp == 0,
                 "sequence_parallel splits micro_batch * seq_len / cp = {} * {} / {} = {} tokens "
                 "over tp = {}, which does not divide them; use seq_len = {}, or sequence_parallel "
                 "= false",
                 train.micro_batch, train.seq_len, parallel.cp, tokens, parallel.tp,
                 either(nearby_multiples(train.seq_len, unit)));
}

void check_loss_scale(const TrainSpec& train) {
  require_config(train.loss_scale == 0 || train.dtype == DType::kF16,
                 "train.loss_scale = {} is for dtype = \"f16\"; leave it out with dtype = \"{}\"",
                 train.loss_scale, name_of(train.dtype));
}

void check_gradients(const TrainSpec& train) {
  require_config(train.gradients != DType::kBF16 || train.dtype == DType::kBF16,
                 "train.gradients = \"bf16\" is for dtype = \"bf16\"; leave it out with dtype = "
                 "\"{}\"",
                 name_of(train.dtype));
}

void check_documents(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  require_config(data.end_token < spec.model.vocab,
                 "data.end_token = {} is no token of a vocabulary of {}; use one below {}",
                 data.end_token, spec.model.vocab, spec.model.vocab);
  require_config(data.chats.empty() || data.end_token < 0,
                 "data.end_token = {} is for text and sets of tokens; conversations of data.chats "
                 "end where they end: leave it out",
                 data.end_token);
  const bool says_ends = data.is_sets() || !data.chats.empty();
  require_config(!data.document_mask || data.end_token >= 0 || says_ends,
                 "data.document_mask needs to know where a document ends; give data.end_token, the "
                 "id of the token that ends one, or sets of tokens, which say it");
}

}  // namespace

void resolve(RunSpec& spec) {
  ParallelSpec& parallel = spec.parallel;
  if (parallel.zero == -1) parallel.zero = parallel.fsdp > 1 ? 3 : 0;
  check_ranges(spec);
  resolve_schedule(parallel);
  resolve_expert_model(spec.model);
  resolve_positions(spec);
  resolve_model(spec.model);
  resolve_batch(spec);
  check_context(spec);
  check_split(spec);
  check_loss_scale(spec.train);
  check_gradients(spec.train);
  resolve_fp8(spec);
  check_optimizer(spec);
  check_data(spec);
  check_experts(spec);
  check_asynchronous(spec);
  check_documents(spec);
  // A schedule from a file says how many stages it has only when it is read.
  const bool known = parallel.virtual_stages > 0;
  parse_stages_recompute(parallel.recompute, spec.model.layers,
                         known ? parallel.pp * parallel.virtual_stages : INT64_MAX);
  if (parallel.grad_reduce == GradReduce::kAuto) {
    // Whole gradients kept over micro-batches would undo what ZeRO 2 and 3 save.
    const bool each = parallel.zero >= 2 && accumulation(spec) > 1 && spec.train.lanes == 0;
    parallel.grad_reduce = each ? GradReduce::kMicroBatch : GradReduce::kStep;
  }
}

void require_world(const ParallelSpec& parallel, int64_t ranks, int64_t heads,
                   const std::string& source) {
  constexpr int64_t kMaxRanks = int64_t{1} << 20;
  require_config(ranks >= 1 && ranks <= kMaxRanks, "{} {}; use 1 to {}", source, ranks, kMaxRanks);
  if (parallel.world() == ranks) return;
  const auto count = [](int64_t n) { return fmt::format("{} rank{}", n, n == 1 ? "" : "s"); };
  const std::string near = nearby_meshes(parallel, ranks, heads);
  throw ConfigError(fmt::format(
      "the mesh {} needs {} but {} {}; {}", mesh_text(parallel, " x "), count(parallel.world()),
      source, ranks,
      near.empty() ? fmt::format("no mesh with axes up to {} has {}", kMaxAxis, count(ranks))
                   : fmt::format("meshes with {} near it: {}", count(ranks), near)));
}

int64_t accumulation(const RunSpec& spec) {
  const TrainSpec& train = spec.train;
  if (train.lanes > 0) {
    const int64_t most = tree_share(train.lanes, distinct_replicas(spec), 0).count;
    return train.global_batch / (train.micro_batch * train.lanes) * most;
  }
  return spec.train.global_batch / (spec.train.micro_batch * spec.parallel.replicas());
}

}  // namespace tessera
