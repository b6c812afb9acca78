// The model of an entry: its shapes, and those that its name or its numbers give.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "published/entry_parts.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int64_t kUsualVocab = 50257;  // GPT-2's
constexpr int64_t kUsualHead = 128;
// DeepSeek-V2's and V3's (arXiv 2405.04434, 2412.19437): query, key-value, head parts.
constexpr LatentAttention kUsualLatent = {1536, 512, 128, 64, 128};

// The catalogue's model of the same name, where there is one: "Llama 2 70B (GQA)" is llama-2-70b.
std::optional<ModelShape> namesake_of(const EntryReading& r) {
  std::string name = r.model.text("name");
  name = name.substr(0, name.find(" ("));
  std::replace(name.begin(), name.end(), ' ', '-');
  std::replace(name.begin(), name.end(), '_', '-');
  const std::vector<std::string_view> known = model_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return std::nullopt;
  return shape_of(find_model(name).model, r.batch.need("seq"));
}

// Positions turn pairs of numbers, so an odd size says that heads are wider than the model: the
// next power of two.
void round_odd_head(EntryReading& r) {
  ModelShape& m = r.run.workload.model;
  if (m.head_dim % 2 == 0 || m.head_dim == 1) return;
  int64_t size = 1;
  while (size < m.head_dim) size *= 2;
  m.head_dim = size;
  r.guess("size of a head", fmt::format("{}", size), true);
}

int64_t expert_whole(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  const auto value = found->get<double>();
  require_config(value >= 0 && value <= 1e9, "model.moe.{} is {:g}", key, value);
  return static_cast<int64_t>(value);
}

// "([0]*3+[1]*11)" -> 3: layers without experts at the front.
int64_t leading_zeros(const std::string& pattern) {
  const size_t at = pattern.find("[0]*");
  if (at == std::string::npos) return 0;
  int64_t count = 0;
  std::from_chars(pattern.data() + at + 4, pattern.data() + pattern.size(), count);
  return count;
}

void read_experts(EntryReading& r) {
  ModelShape& m = r.run.workload.model;
  const json* moe = r.model.find("moe");
  if (moe == nullptr || !moe->is_object()) return;
  m.experts = expert_whole(*moe, "experts");
  m.experts_per_token = expert_whole(*moe, "topk");
  require_config(m.experts > 0 && m.experts_per_token > 0 && m.experts_per_token <= m.experts,
                 "model.moe needs experts and topk, topk at most experts");
  m.moe_ffn = expert_whole(*moe, "ffn");
  m.shared_ffn = expert_whole(*moe, "shared_ffn");
  if (m.shared_ffn == 0) m.shared_ffn = expert_whole(*moe, "shared") * m.moe_ffn;
  m.dense_layers = expert_whole(*moe, "dense_layers");
  if (m.dense_layers == 0) m.dense_layers = leading_zeros(r.opts.text("moe_layer_freq"));
  m.dense_layers = std::min(m.dense_layers, m.layers);
  const bool said = r.model.find("mla") != nullptr;
  if (!m.latent && (said || (m.shared_ffn > 0 && m.kv_heads == m.heads))) {
    m.latent = true;
    m.mla = kUsualLatent;
    r.run.guesses.push_back({"latent attention", "ranks and head sizes of DeepSeek-V3"});
  }
}

// Layers, width and heads, as the entry or its namesake has them.
void read_sizes(EntryReading& r, const std::optional<ModelShape>& namesake) {
  ModelShape& m = r.run.workload.model;
  const auto size = [&](const char* key, int64_t ModelShape::*field) {
    if (r.model.whole(key).value_or(0) > 0 || !namesake) return r.model.need(key);
    r.guess(fmt::format("model.{}", key), "that of the catalogue's model of the name", true);
    return (*namesake).*field;
  };
  m.layers = size("layers", &ModelShape::layers);
  m.hidden = size("hidden", &ModelShape::hidden);
  if (!r.model.whole("heads") && !namesake) {
    m.heads = std::max<int64_t>(1, m.hidden / kUsualHead);
    r.guess("heads", fmt::format("{}, of {} columns", m.heads, kUsualHead), true);
  } else {
    m.heads = size("heads", &ModelShape::heads);
  }
  const bool same = namesake && namesake->hidden == m.hidden && namesake->heads == m.heads;
  m.kv_heads = r.model.whole("kv_heads").value_or(same ? namesake->kv_heads : m.heads);
  m.head_dim = r.model.whole("head_dim").value_or(std::max<int64_t>(1, m.hidden / m.heads));
  if (!r.model.whole("head_dim")) round_odd_head(r);
  if (!same) return;
  if (!r.model.whole("head_dim")) m.head_dim = namesake->head_dim;
  m.latent = namesake->latent;
  m.mla = namesake->mla;
}

void read_mlp(EntryReading& r, const std::optional<ModelShape>& namesake) {
  ModelShape& m = r.run.workload.model;
  m.ffn = r.model.whole("ffn").value_or(m.moe_ffn);
  if (m.ffn == 0 && m.experts == 0) {
    m.ffn = namesake      ? namesake->ffn
            : m.gated_mlp ? (8 * m.hidden / 3 + 255) / 256 * 256
                          : 4 * m.hidden;
    r.guess("model.ffn", fmt::format("{}", m.ffn), true);
  }
  if (m.experts > 0 && m.moe_ffn == 0) m.moe_ffn = m.ffn;
  require_config(m.ffn > 0, "model.ffn is not given");
}

}  // namespace

void read_model(EntryReading& r) {
  ModelShape& m = r.run.workload.model;
  const std::optional<ModelShape> namesake = namesake_of(r);
  read_sizes(r, namesake);
  const bool gated = namesake && namesake->gated_mlp;
  m.gated_mlp = r.model.find("gated_mlp") == nullptr ? gated : r.model.yes("gated_mlp");
  m.tied = r.model.find("tied_embeddings") == nullptr ? namesake && namesake->tied
                                                      : r.model.yes("tied_embeddings");
  read_experts(r);
  if (const std::optional<int64_t> vocab = r.model.whole("vocab"); vocab && *vocab > 0) {
    m.vocab = *vocab;
  } else if (namesake) {
    m.vocab = namesake->vocab;
    r.guess("vocabulary", "that of the catalogue's model of the name", true);
  } else {
    m.vocab = kUsualVocab;
    r.guess("vocabulary", "50,257, as GPT-2's", true);
  }
  read_mlp(r, namesake);
  // Models with a plain MLP are of the GPT kind: LayerNorm, biases, dropout, learned positions.
  if (!m.gated_mlp) {
    m.layer_norm = m.biases = true;
    m.dropout = true;
    m.learned_positions = r.batch.need("seq");
  }
  m.mtp_layers = r.model.whole("mtp_layers").value_or(0);
}

}  // namespace tessera
