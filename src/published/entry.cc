#include "published/entry.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/step/collective_time.h"
#include "cost/step/workload_limits.h"
#include "published/hardware.h"
#include "published/inference.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int64_t kVocabUnit = 128;     // tables are padded to a multiple of it
constexpr int64_t kUsualVocab = 50257;  // GPT-2's
constexpr int64_t kNodeDevices = 8;
constexpr double kMiB = 1 << 20;
constexpr double kGiB = 1 << 30;
// Of DeepSeek-V2 and V3 (arXiv 2405.04434, 2412.19437): query, key-value, head parts.
constexpr LatentAttention kUsualLatent = {1536, 512, 128, 64, 128};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

// Reads one object of an entry; null and absent are the same.
class Fields {
 public:
  Fields(const json& entry, const char* name) : name_(name) {
    static const json kEmpty = json::object();
    const auto found = entry.find(name);
    object_ = found != entry.end() && found->is_object() ? &*found : &kEmpty;
  }

  [[nodiscard]] const json* find(const char* key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }

  [[nodiscard]] std::optional<int64_t> whole(const char* key) const {
    const json* value = find(key);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    const auto number = value->get<double>();
    require_config(number >= 0 && number <= 1e12, "{}.{} is {:g}: from 0 to 1e12 is expected",
                   name_, key, number);
    return static_cast<int64_t>(number);
  }

  [[nodiscard]] std::optional<double> real(const char* key) const {
    const json* value = find(key);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    const auto number = value->get<double>();
    require_config(number > 1e-30 && number < 1e30, "{}.{} is {:g}: from 1e-30 to 1e30 is expected",
                   name_, key, number);
    return number;
  }

  [[nodiscard]] std::string text(const char* key) const {
    const json* value = find(key);
    return value != nullptr && value->is_string() ? lower(value->get<std::string>()) : "";
  }

  [[nodiscard]] bool yes(const char* key) const {
    const json* value = find(key);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }

  [[nodiscard]] int64_t need(const char* key) const {
    const std::optional<int64_t> value = whole(key);
    require_config(value.has_value() && *value > 0, "{}.{} is not given", name_, key);
    return *value;
  }

 private:
  std::string name_;
  const json* object_;
};

class EntryReader {
 public:
  explicit EntryReader(const json& entry)
      : model_(entry, "model"),
        hw_(entry, "hw"),
        parallel_(entry, "parallel"),
        batch_(entry, "batch"),
        opts_(entry, "opts"),
        results_(entry, "results"),
        derived_(entry, "derived"),
        hw_json_(entry.contains("hw") ? entry["hw"] : json::object()) {
    run_.id = entry.value("id", "");
    run_.family = family_of(run_.id);
  }

  PublishedRun read() {
    read_model();
    read_layout();
    read_options();
    if (replicas_open_) choose_replicas();
    const int64_t world = run_.strategy.world();
    run_.workload.cluster = cluster_of_text(hw_json_, world, run_.guesses);
    read_precision();
    pad_vocab();
    read_batch();
    refuse_impossible();
    infer_later_tokens();
    guess_expert_overlap();
    fill_open_choices();
    run_.strategy.stage_layers = likely_stage_layers(run_.workload, run_.strategy);
    read_time();
    read_memory();
    return std::move(run_);
  }

 private:
  void guess(std::string what, std::string taken, bool memory_depends) {
    run_.guesses.push_back({std::move(what), std::move(taken)});
    if (memory_depends) run_.memory_is_certain = false;
  }

  void refuse_impossible() const {
    check(run_.workload);
    const std::string wrong = why_impossible(run_.workload, run_.strategy);
    require_config(wrong.empty(), "{}", wrong);
  }

  void read_model() {
    ModelShape& m = run_.workload.model;
    m.layers = model_.need("layers");
    m.hidden = model_.need("hidden");
    m.heads = model_.need("heads");
    m.kv_heads = model_.whole("kv_heads").value_or(m.heads);
    m.head_dim = model_.whole("head_dim").value_or(std::max<int64_t>(1, m.hidden / m.heads));
    if (!model_.whole("head_dim")) round_odd_head();
    read_namesake();
    m.gated_mlp = model_.yes("gated_mlp");
    m.tied = model_.yes("tied_embeddings");
    read_experts();
    if (const std::optional<int64_t> vocab = model_.whole("vocab")) {
      m.vocab = *vocab;
    } else {
      m.vocab = kUsualVocab;
      guess("vocabulary", "50,257, as GPT-2's", true);
    }
    const std::optional<int64_t> ffn = model_.whole("ffn");
    m.ffn = ffn.value_or(m.moe_ffn);
    if (m.experts > 0 && m.moe_ffn == 0) m.moe_ffn = m.ffn;
    require_config(m.ffn > 0, "model.ffn is not given");
    // Models with a plain MLP are of the GPT kind: LayerNorm, biases, dropout, learned positions.
    if (!m.gated_mlp) {
      m.layer_norm = m.biases = true;
      m.dropout = true;
      m.learned_positions = batch_.need("seq");
    }
    m.mtp_layers = model_.whole("mtp_layers").value_or(0);
  }

  // Positions turn pairs of numbers, so an odd size says that heads are wider than the model: the
  // next power of two.
  void round_odd_head() {
    ModelShape& m = run_.workload.model;
    if (m.head_dim % 2 == 0 || m.head_dim == 1) return;
    int64_t size = 1;
    while (size < m.head_dim) size *= 2;
    m.head_dim = size;
    guess("size of a head", fmt::format("{}", size), true);
  }

  // Shapes of heads that entries leave out are those of the model of the same name and width.
  void read_namesake() {
    ModelShape& m = run_.workload.model;
    std::string name = model_.text("name");
    name = name.substr(0, name.find(" ("));
    const std::vector<std::string_view> known = model_names();
    if (std::find(known.begin(), known.end(), name) == known.end()) return;
    const ModelShape namesake = shape_of(find_model(name).model, batch_.need("seq"));
    if (namesake.hidden != m.hidden || namesake.heads != m.heads) return;
    if (!model_.whole("head_dim")) m.head_dim = namesake.head_dim;
    m.latent = namesake.latent;
    m.mla = namesake.mla;
  }

  void read_experts() {
    ModelShape& m = run_.workload.model;
    const json* moe = model_.find("moe");
    if (moe == nullptr || !moe->is_object()) return;
    const Fields fields(json{{"moe", *moe}}, "moe");
    m.experts = json_whole(*moe, "experts");
    m.experts_per_token = json_whole(*moe, "topk");
    require_config(m.experts > 0 && m.experts_per_token > 0 && m.experts_per_token <= m.experts,
                   "model.moe needs experts and topk, topk at most experts");
    m.moe_ffn = json_whole(*moe, "ffn");
    m.shared_ffn = json_whole(*moe, "shared_ffn");
    if (m.shared_ffn == 0) m.shared_ffn = json_whole(*moe, "shared") * m.moe_ffn;
    m.dense_layers = json_whole(*moe, "dense_layers");
    if (m.dense_layers == 0) m.dense_layers = leading_zeros(opts_.text("moe_layer_freq"));
    m.dense_layers = std::min(m.dense_layers, m.layers);
    const bool said = model_.find("mla") != nullptr;
    if (!m.latent && (said || (m.shared_ffn > 0 && m.kv_heads == m.heads))) {
      m.latent = true;
      m.mla = kUsualLatent;
      run_.guesses.push_back({"latent attention", "ranks and head sizes of DeepSeek-V3"});
    }
  }

  static int64_t json_whole(const json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number()) return 0;
    const auto value = found->get<double>();
    require_config(value >= 0 && value <= 1e9, "model.moe.{} is {:g}", key, value);
    return static_cast<int64_t>(value);
  }

  // "([0]*3+[1]*11)" -> 3: layers without experts at the front.
  static int64_t leading_zeros(const std::string& pattern) {
    const size_t at = pattern.find("[0]*");
    if (at == std::string::npos) return 0;
    int64_t count = 0;
    std::from_chars(pattern.data() + at + 4, pattern.data() + pattern.size(), count);
    return count;
  }

  void read_layout() {
    Strategy& s = run_.strategy;
    const std::optional<int64_t> devices = hw_.whole("gpus");
    s.cp = std::max<int64_t>(1, parallel_.whole("cp").value_or(1));
    s.ep = std::max<int64_t>(1, parallel_.whole("ep").value_or(1));
    const std::optional<int64_t> tp = parallel_.whole("tp"), pp = parallel_.whole("pp");
    layout_open_ = !tp || !pp;
    s.tp = std::max<int64_t>(1, tp.value_or(1));
    s.pp = std::max<int64_t>(1, pp.value_or(1));
    s.virtual_stages = std::max<int64_t>(1, parallel_.whole("vp").value_or(1));
    virtual_open_ = parallel_.find("vp") == nullptr && s.pp > 1;
    refuse_large(s);
    read_replicas(devices);
    read_zero();
    s.sequence_parallel = parallel_.yes("sp") && s.tp > 1;
    read_schedule();
  }

  // So that sizes can be multiplied from here on.
  void refuse_large(const Strategy& s) const {
    const auto replicas = static_cast<double>(parallel_.whole("dp").value_or(1));
    const double devices = static_cast<double>(s.tp) * static_cast<double>(s.pp) *
                           static_cast<double>(s.cp) * std::max(1.0, replicas);
    require_config(devices <= static_cast<double>(kMaxDevices) && s.ep <= kMaxDevices &&
                       s.virtual_stages <= kMaxDevices,
                   "parallel asks for {:g} devices, ep {} and vp {}: at most {} are expected",
                   devices, s.ep, s.virtual_stages, kMaxDevices);
  }

  void read_replicas(std::optional<int64_t> devices) {
    Strategy& s = run_.strategy;
    const int64_t others = s.tp * s.pp * s.cp;
    if (const std::optional<int64_t> dp = parallel_.whole("dp"); dp && *dp > 0) {
      s.dp = *dp;
      return;
    }
    if (devices && *devices >= others) {
      s.dp = *devices / others;
      return;
    }
    replicas_open_ = true;
  }

  // As many as the bytes of the states say; else enough for one node, and for the experts' groups.
  void choose_replicas() {
    Strategy& s = run_.strategy;
    Workload& w = run_.workload;
    const int64_t others = s.tp * s.pp * s.cp;
    s.dp = s.ep / std::gcd(s.tp * s.cp, s.ep);
    std::string why = "a node, or what the experts need";
    if (const std::optional<double> bytes = results_.real("steady_allocated_bytes")) {
      std::vector<Guess> ignored;
      w.cluster = cluster_of_text(hw_json_, others * s.dp, ignored);
      read_precision();
      pad_vocab();
      w.seq_len = batch_.need("seq");
      w.global_batch = s.dp;
      refuse_impossible();
      s.dp = replicas_of_states(w, s, *bytes);
      why = "the bytes of the states";
    } else {
      while (others * s.dp < kNodeDevices) s.dp *= 2;
    }
    guess("number of devices", fmt::format("{}, by {}", others * s.dp, why), true);
  }

  // Layers that predict later tokens are part of the arithmetic that a source reports. They came
  // with latent attention.
  void infer_later_tokens() {
    const std::optional<double> tokens = results_.real("tokens_per_s_per_gpu");
    const std::optional<double> tflops = results_.real("tflops_per_gpu");
    if (!run_.workload.model.latent || model_.find("mtp_layers") != nullptr) return;
    if (!tokens || !tflops) return;
    if (!has_later_tokens(run_.workload, *tflops * 1e12 / *tokens)) return;
    run_.workload.model.mtp_layers = 1;
    guess("layers that predict later tokens", "1, by the arithmetic of a token", true);
  }

  void read_zero() {
    Strategy& s = run_.strategy;
    const std::string text = parallel_.text("zero");
    if (const std::optional<int64_t> stage = parallel_.whole("zero")) {
      s.zero = *stage;
    } else if (has(text, "fsdp") || has(text, "zero-3") || has(text, "weight sharding")) {
      s.zero = 3;
      s.release_after_forward = !has(text, "shard_grad_op");
    } else if (has(text, "zero-2")) {
      s.zero = 2;
    } else if (has(text, "zero-1") || has(text, "distributed optimizer")) {
      s.zero = 1;
    }
    if (has(text, "pod dp")) pods_ = true;
  }

  void read_schedule() {
    Strategy& s = run_.strategy;
    const std::string text = parallel_.text("schedule");
    if (s.virtual_stages > 1 || has(text, "interleaved") || has(text, "1f1b-i")) {
      s.schedule = PipelineKind::kInterleaved;
    }
    if (has(text, "zb-1p") || has(text, "zb-h1")) s.schedule = PipelineKind::kZbH1;
    if (has(text, "zb-2p") || has(text, "zb-h2")) s.schedule = PipelineKind::kZbH2;
    if (has(text, "zb-v")) s.schedule = PipelineKind::kZbV;
    if (has(text, "gpipe")) s.schedule = PipelineKind::kGPipe;
    if (s.pp == 1) s.schedule = PipelineKind::k1F1B;
  }

  void read_options() {
    Strategy& s = run_.strategy;
    Workload& w = run_.workload;
    const std::string recompute = opts_.text("recompute");
    if (recompute.starts_with("full") || has(recompute, "remat")) {
      s.recompute = Recompute::kFull;
    } else if (has(recompute, "every-other-layer") || has(recompute, "per-op")) {
      // Per op: every second product is computed again, which is half of the arithmetic too.
      s.recompute = Recompute::kFull;
      s.recompute_layers = w.model.layers / s.pp / 2;
    } else if (recompute.starts_with("selective")) {
      s.recompute = Recompute::kSelective;
    } else if (!recompute.starts_with("none")) {
      guess("recomputation", "none", true);
    }
    const std::string attention = opts_.text("attention");
    w.attention = attention_of(attention);
    if (attention.empty() || has(attention, "not stated")) guess_attention();
    const bool deepspeed = has(parallel_.text("schedule"), "deepspeed");
    w.engine = find_engine(deepspeed ? "deepspeed" : "megatron").numbers;
    const std::string overlap = opts_.text("overlap");
    if (overlap.empty()) {
      guess_overlap();
    } else if (overlap.starts_with("none")) {
      w.overlap.data = false;
    } else {
      w.overlap.data = has(overlap, "dp");
      w.overlap.tensor = has(overlap, "tp");
      w.overlap.pipeline = has(overlap, "pp");
    }
    w.overlap.tensor = w.overlap.tensor || opts_.yes("async_tp");
    w.fused_loss = opts_.yes("ce_fusion");
  }

  // A distributed optimizer sums and gathers bucket by bucket, for which it was made, and engines
  // that have one send between virtual stages while others compute.
  void guess_overlap() {
    const Strategy& s = run_.strategy;
    OverlapChoice& overlap = run_.workload.overlap;
    const bool buckets = has(parallel_.text("zero"), "distributed optimizer");
    overlap.data = s.pp == 1 || buckets;
    overlap.pipeline = buckets && s.virtual_stages > 1;
    if (s.dp > 1) {
      guess("overlap of data parallelism",
            !overlap.data ? "no"
            : s.pp == 1   ? "yes, without a pipeline"
                          : "yes, by buckets",
            false);
    }
    if (overlap.pipeline) guess("overlap of the pipeline's messages", "yes, interleaved", false);
  }

  // With virtual stages there is always another micro-batch whose kernels an exchange over the
  // network can run beside; inside a node it is too short for that to be worth it.
  void guess_expert_overlap() {
    const Strategy& s = run_.strategy;
    Workload& w = run_.workload;
    const GroupLinks links = links_of(w.cluster, {s.ep, expert_strides_of(s).ep});
    if (!opts_.text("overlap").empty() || s.virtual_stages == 1 || links.outer == 1) return;
    w.overlap.experts = true;
    guess("overlap of the experts' exchange", "yes, with another micro-batch's kernels", false);
  }

  // NVIDIA's Transformer Engine has kernels for each device; others say "flash", "Triton", "SDPA".
  static AttentionKind attention_of(const std::string& text) {
    if (text.starts_with("unfused")) return AttentionKind::kUnfused;
    const bool own = text.starts_with("te ") || has(text, "(te)") || has(text, "cudnn");
    return own ? AttentionKind::kFlash : AttentionKind::kPortableFlash;
  }

  // Flash attention came late to models of the GPT kind: their scripts had to ask for it, and then
  // their reports say so.
  void guess_attention() {
    const bool unfused = !run_.workload.model.gated_mlp;
    run_.workload.attention = unfused ? AttentionKind::kUnfused : AttentionKind::kPortableFlash;
    guess("attention", unfused ? "unfused, a plain MLP being of its time" : "flash", unfused);
  }

  void read_precision() {
    PrecisionChoice& p = run_.workload.precision;
    const std::string text = opts_.text("precision");
    const DeviceSpec& device = run_.workload.cluster.device;
    p = {};
    if (has(text, "fp8") || has(text, "float8")) p.products = MathType::kF8;
    if (has(text, "fp4")) p.products = MathType::kF4;
    // A scale for every row: the kernels that do that are no faster than those of 16 bits.
    if (has(text, "rowwise") || device.peak(p.products) == 0) p.products = MathType::kF16;
    // 16-bit gradients where the source does not speak of 32 bits: fp16 engines, pure bf16 ones.
    const bool half = has(text, "fp16") || has(text, "pure");
    if (half && !has(text, "fp32 grad")) {
      p.gradient_bytes = 2;
      p.state_bytes = 14;  // 18 in all (Korthikanti et al. 2022, figure 1)
    }
    // Products add to sums of 32 bits (Megatron since 2022); what adds to 16-bit ones, or is worth
    // a word in the report, is a kernel of its own.
    p.adds_gradients_apart = p.gradient_bytes == 2 || has(text, "fp32 grad");
  }

  void pad_vocab() {
    int64_t& vocab = run_.workload.model.vocab;
    const int64_t tp = run_.strategy.tp;
    if (vocab % kVocabUnit == 0 && vocab % tp == 0) return;
    const int64_t unit = kVocabUnit * tp;
    vocab = (vocab + unit - 1) / unit * unit;
  }

  void read_batch() {
    Workload& w = run_.workload;
    Strategy& s = run_.strategy;
    w.seq_len = batch_.need("seq");
    const std::optional<int64_t> micro = batch_.whole("micro");
    micro_open_ = !micro;
    s.micro_batch = std::max<int64_t>(1, micro.value_or(1));
    const int64_t together = s.dp * s.micro_batch;
    std::optional<int64_t> global = batch_.whole("global");
    if (!global) {
      if (const std::optional<double> tokens = batch_.real("tokens_per_batch")) {
        global = static_cast<int64_t>(*tokens / static_cast<double>(w.seq_len));
      }
    }
    if (!global) {
      global = together * std::max<int64_t>(1, 4 * s.pp);
      guess("global batch", fmt::format("{}", *global), false);
      global_known_ = false;
    }
    w.global_batch = std::max<int64_t>(1, (*global + together / 2) / together) * together;
    batch_scale_ = static_cast<double>(w.global_batch) / static_cast<double>(*global);
    if (w.global_batch != *global) {
      run_.guesses.push_back(
          {"global batch", fmt::format("{} instead of {}, which {} replicas of "
                                       "micro-batches of {} do not divide",
                                       w.global_batch, *global, s.dp, s.micro_batch)});
    }
    // A small model's first pods keep a replica each: gradients alone cross between them.
    if (pods_ && s.dp % 2 == 0) s.shard = s.dp / 2;
  }

  // What the source leaves open is chosen as the planner would: the fastest that fits.
  void fill_open_choices() {
    if (!micro_open_ && !virtual_open_ && !layout_open_) return;
    Workload& w = run_.workload;
    CostModel model(w);
    const double room = w.cluster.device.memory_bytes.value - w.cluster.device.reserved_bytes.value;
    Strategy best = run_.strategy;
    std::optional<QuickEstimate> found;
    bool found_fits = false;
    const auto meet = [&](const Strategy& candidate) {
      if (!why_impossible(w, candidate).empty()) return;
      const QuickEstimate estimate = model.quick(candidate);
      const bool fits = static_cast<double>(estimate.peak_bytes) <= room;
      const bool better = !found || (fits && !found_fits) ||
                          (fits == found_fits && estimate.step_s < found->step_s);
      if (!better) return;
      best = candidate;
      found = estimate;
      found_fits = fits;
    };
    const int64_t replicas = w.cluster.devices / run_.strategy.cp;
    for (int64_t tp = 1; tp <= (layout_open_ ? 8 : 1); tp *= 2) {
      for (int64_t pp = 1; pp <= (layout_open_ ? 64 : 1); pp *= 2) {
        Strategy layout = run_.strategy;
        if (layout_open_) {
          if (replicas % (tp * pp) != 0) continue;
          layout.tp = tp;
          layout.pp = pp;
          layout.dp = replicas / (tp * pp);
          layout.zero = 1;
          layout.sequence_parallel = tp > 1;
        }
        for (int64_t micro = 1; micro <= (micro_open_ ? 16 : 1); micro *= 2) {
          Strategy candidate = layout;
          if (micro_open_) candidate.micro_batch = micro;
          const int64_t most = virtual_open_ ? w.model.layers / candidate.pp : 1;
          for (int64_t v = 1; v <= most; ++v) {
            if (virtual_open_) {
              if (w.model.layers % (candidate.pp * v) != 0) continue;
              candidate.virtual_stages = v;
            }
            meet(candidate);
          }
        }
      }
    }
    require_config(found.has_value(), "no layout of {} devices divides the model",
                   w.cluster.devices);
    run_.strategy = best;
    guess("what the source leaves open",
          fmt::format("tp {}, pp {}, dp {}, {} virtual stages, micro-batch {}: the fastest",
                      best.tp, best.pp, best.dp, best.virtual_stages, best.micro_batch),
          true);
  }

  void read_time() {
    const Workload& w = run_.workload;
    const auto devices = static_cast<double>(w.cluster.devices);
    const double tokens = static_cast<double>(w.global_batch) * static_cast<double>(w.seq_len);
    for (const Fields* fields : {&results_, &derived_}) {
      for (const char* key :
           {"iter_time_s", "published_iter_time_s", "iter_time_s_if_fullattn_6ND"}) {
        if (const std::optional<double> seconds = fields->real(key); seconds && global_known_) {
          run_.step_s = *seconds * batch_scale_;
          return;
        }
      }
    }
    for (const Fields* fields : {&results_, &derived_}) {
      if (const std::optional<double> rate = fields->real("tokens_per_s_per_gpu")) {
        run_.step_s = tokens / (*rate * devices);
        return;
      }
      if (const std::optional<double> rate = fields->real("tokens_per_s_total")) {
        run_.step_s = tokens / *rate;
        return;
      }
    }
    const std::optional<double> hours = results_.real("gpu_hours"), all = results_.real("tokens");
    if (hours && all) {
      run_.step_s = tokens * *hours * 3600 / (*all * devices);
      return;
    }
    read_time_from_rate(devices);
  }

  // By the formula of Narayanan et al. 2021, which counts what is computed again, or from MFU of
  // the model's own arithmetic with whole attention, which PaLM and most others mean by it.
  void read_time_from_rate(double devices) {
    const Workload& w = run_.workload;
    const double tokens = static_cast<double>(w.global_batch) * static_cast<double>(w.seq_len);
    const double attention = 6 * tokens * static_cast<double>(w.model.layers) *
                             static_cast<double>(w.model.query_width() + w.model.value_width()) *
                             static_cast<double>(w.seq_len);
    const double products = 6 * tokens * static_cast<double>(w.model.product_weights());
    const double model = products + attention;
    if (const std::optional<double> mfu = results_.real("mfu")) {
      run_.step_s = model / (*mfu * devices * w.cluster.device.peak(MathType::kF16));
      return;
    }
    if (const std::optional<double> rate = results_.real("tflops_per_gpu")) {
      double flops = model;
      if (run_.strategy.recompute == Recompute::kFull) {
        flops += (model - 6 * tokens * static_cast<double>(w.model.table_parameters())) / 3;
      }
      run_.step_s = flops / (*rate * 1e12 * devices);
    }
  }

  void read_memory() {
    if (const json* by_rank = results_.find("max_allocated_mib_by_rank");
        by_rank != nullptr && by_rank->is_object()) {
      run_.rank_bytes.resize(by_rank->size());
      for (const auto& [rank, mib] : by_rank->items()) {
        size_t index = 0;
        std::from_chars(rank.data(), rank.data() + rank.size(), index);
        require_config(index < run_.rank_bytes.size() && mib.is_number(),
                       "max_allocated_mib_by_rank must have a number for every rank from 0");
        run_.rank_bytes[index] = mib.get<double>() * kMiB;
      }
    }
    run_.last_rank_bytes = results_.real("max_allocated_bytes");
    if (const std::optional<double> gib = results_.real("peak_mem_gib")) {
      run_.peak_bytes = *gib * kGiB;
    } else if (const std::optional<double> gb = results_.real("peak_mem_gb")) {
      run_.peak_bytes = *gb * kGiB;  // tools print GiB and say GB
    }
  }

  Fields model_, hw_, parallel_, batch_, opts_, results_, derived_;
  json hw_json_;
  PublishedRun run_;
  bool layout_open_ = false, virtual_open_ = false, micro_open_ = false, pods_ = false;
  bool replicas_open_ = false;
  bool global_known_ = true;
  double batch_scale_ = 1;
};

}  // namespace

std::string family_of(const std::string& id) {
  const size_t first = id.find('-');
  if (first == std::string::npos) return id;
  return id.substr(0, id.find('-', first + 1));
}

PublishedRun run_of_entry(const json& entry) { return EntryReader(entry).read(); }

}  // namespace tessera
