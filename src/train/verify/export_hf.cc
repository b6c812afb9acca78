#include "train/verify/export_hf.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/philox.h"
#include "base/text/json.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_shards.h"
#include "data/chat_folder.h"
#include "data/tokenizer/tokenizer.h"
#include "spec/run_file/run_file.h"
#include "train/verify/difference.h"
#include "train/verify/forward.h"
#include "train/verify/model_folder.h"
#include "train/weights/checkpoint_weights.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr double kMostError = 1e-5;  // of logits in f32
constexpr int64_t kCheckedTokens = 32;
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "tokenizer.model",
                                           "chat_template.jinja"};
// The length that the config.json of the weights was made for, which ours says too.
constexpr std::string_view kTheirLength = "max_position_embeddings";
// What ours does not say and is not true of the copy: where it came from, how it was packed, and a
// list of layers that other keys say as well.
constexpr std::string_view kLeftOut[] = {"_name_or_path", "auto_map", "layer_types",
                                         "quantization_config"};
constexpr const char* kTokenKeys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};

// A folder that is removed unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {
    std::error_code error;
    fs::remove_all(path_, error);  // of an export that was killed
    fs::create_directories(path_, error);
    require(!error, "cannot make '{}': {}", path_, error.message());
  }
  ~NewFolder() {
    std::error_code error;
    if (!kept_) fs::remove_all(path_, error);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  void rename_to(const std::string& name) {
    std::error_code error;
    fs::rename(path_, name, error);
    require(!error, "cannot rename '{}' to '{}': {}", path_, name, error.message());
    kept_ = true;
  }

 private:
  std::string path_;
  bool kept_ = false;
};

void write_json(const std::string& path, const ordered_json& json) {
  std::ofstream out(path, std::ios::binary);
  out << json.dump(2) << '\n' << std::flush;
  require(out.good(), "cannot write '{}': is the disk full?", path);
}

ordered_json read_json(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  require_config(in.good(), "cannot read '{}'", path);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return parse_json(text, path);
}

// "eos_token_id" and the like, as the tokenizer beside a run says. Null where it has none: programs
// would take what the first models of a family had.
void add_token_ids(const ModelFolder& model, ordered_json& config) {
  const std::string tokenizer = find_beside(model, "tokenizer.json");
  const ordered_json named =
      tokenizer.empty() ? ordered_json::object() : special_tokens_of(tokenizer);
  std::optional<Tokenizer> loaded;
  for (const std::string key : kTokenKeys) {
    const std::string token = named.value(key.substr(0, key.size() - 3), "");
    config[key] = nullptr;
    if (token.empty()) continue;
    if (!loaded.has_value()) loaded.emplace(Tokenizer::load(tokenizer));
    const int32_t id = loaded->id_of(token);
    if (id >= 0) config[key] = id;
  }
}

// Ours, with what the folder that the weights came from says beside the model.
ordered_json config_of(const ModelFolder& model) {
  std::optional<ordered_json> config = hf_config(model.spec);
  require_config(config.has_value(),
                 "'{}': no config.json of Hugging Face can say what this model is made of; models "
                 "of a family as it comes can be exported (docs/models.md)",
                 model.path);
  const std::string origin = model.is_run ? model.origin : model.path;
  const std::string path = origin + "/config.json";
  if (!origin.empty() && fs::is_regular_file(path)) {
    const ordered_json theirs = read_json(path);
    for (const auto& [key, value] : theirs.items()) {
      const bool is_left_out = std::ranges::count(kLeftOut, key) > 0;
      if (key == kTheirLength || (!config->contains(key) && !is_left_out)) (*config)[key] = value;
    }
  } else {
    add_token_ids(model, *config);
  }
  return *config;
}

// The type that most of the weights have, under the names of Transformers 5 and 4.
void add_type(const std::vector<TensorHead>& heads, ordered_json& config) {
  std::map<StoredType, int64_t> elements;
  for (const TensorHead& head : heads) {
    int64_t count = 1;
    for (const int64_t size : head.shape) count *= size;
    elements[head.type] += count;
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::map<StoredType, std::string_view> names = {{StoredType::kF64, "float64"},
                                                        {StoredType::kF32, "float32"},
                                                        {StoredType::kBF16, "bfloat16"},
                                                        {StoredType::kF16, "float16"}};
  const auto name = most == elements.end() ? names.end() : names.find(most->first);
  for (const char* key : {"dtype", "torch_dtype"}) {
    config.erase(key);
    if (name != names.end()) config[key] = name->second;
  }
}

ordered_json generation_config_of(const ModelFolder& model, const ordered_json& config) {
  const std::string theirs = find_beside(model, "generation_config.json");
  if (!theirs.empty()) return read_json(theirs);
  ordered_json json = {{"_from_model_config", true}};
  for (const char* key : kTokenKeys) {
    if (config.contains(key)) json[key] = config[key];
  }
  return json;
}

// In the order of their names, as the index has them.
std::vector<TensorHead> heads_of(const HfWeights& weights) {
  std::vector<TensorHead> heads;
  for (const std::string& name : weights.names()) {
    const TensorInfo* info = weights.find(name);
    heads.push_back({name, info->type, info->shape});
  }
  return heads;
}

void write_weights(const HfWeights& weights, const std::vector<HfShard>& shards,
                   const NewFolder& out) {
  std::vector<std::byte> bytes;
  for (const HfShard& shard : shards) {
    std::vector<TensorHead> order = shard.tensors;
    sort_in_file_order(order);
    SafetensorsWriter writer(out.file(shard.file), order, {{"format", "pt"}});
    for (const TensorHead& head : order) {
      const TensorInfo* info = weights.find(head.name);
      bytes.resize(static_cast<size_t>(info->end - info->begin));
      weights.read_bytes(head.name, bytes);
      writer.add(head.name, bytes);
    }
    writer.commit();
  }
  if (shards.size() > 1)
    write_json(out.file("model.safetensors.index.json"), index_of_shards(shards));
}

void put_together(const ModelFolder& checkpoint, const NewFolder& out) {
  const RunSpec& spec = checkpoint.spec;
  write_checkpoint_weights(checkpoint.path, layout_parameters(spec, mesh_of(spec.parallel)),
                           out.file("model.safetensors"));
}

// Tokens of all parts of the vocabulary.
std::vector<double> logits_of(RunSpec spec, int64_t length) {
  spec.train.seq_len = length;
  const auto vocab = static_cast<double>(spec.model.vocab);
  return forward_logits(spec, 1, [vocab](int64_t, std::span<int32_t> tokens, std::span<int32_t>) {
    for (size_t t = 0; t < tokens.size(); ++t) {
      tokens[t] = static_cast<int32_t>(vocab * uniform_at(/*seed=*/7, /*stream=*/0, t));
    }
  });
}

void check_logits(const ModelFolder& source, const NewFolder& out, ExportReport& report) {
  const int64_t length = std::min(kCheckedTokens, source.spec.train.seq_len);
  const std::vector<double> live = logits_of(source.spec, length);
  const std::vector<double> loaded = logits_of(open_model_folder(out.path()).spec, length);
  report.checked = static_cast<int64_t>(live.size());
  report.largest_error =
      live.size() == loaded.size() ? relative_difference(loaded, live) : INFINITY;
  require(!exceeds(report.largest_error, kMostError),
          "the exported folder computes other logits than '{}': the relative "
          "difference is {:.2e}; nothing was written",
          source.path, report.largest_error);
}

}  // namespace

ExportReport export_hf(const ExportOptions& options) {
  std::error_code error;
  require_config(!fs::exists(fs::symlink_status(options.out, error)),
                 "'{}' is there already: name a folder that does not exist", options.out);
  const ModelFolder source = open_model_folder(options.source);
  ordered_json config = config_of(source);
  require_config(source.is_checkpoint || HfWeights::present(source.path),
                 "'{}' has no weights (model.safetensors): a run writes them when it ends; a "
                 "checkpoint of it can be exported as well",
                 source.path);
  std::optional<NewFolder> whole;  // a file of the weights that a checkpoint has in shards
  if (source.is_checkpoint) put_together(source, whole.emplace(options.out + ".weights"));
  const HfWeights weights = HfWeights::open(whole ? whole->path() : source.path);
  const std::vector<TensorHead> heads = heads_of(weights);
  add_type(heads, config);
  const std::vector<HfShard> shards = deal_into_shards(heads, options.shard_bytes);
  NewFolder out(options.out + ".partial");
  write_json(out.file("config.json"), config);
  write_json(out.file("generation_config.json"), generation_config_of(source, config));
  for (const char* name : kTokenizerFiles) {
    const std::string from = find_beside(source, name);
    if (from.empty()) continue;
    fs::copy_file(from, out.file(name), error);
    require(!error, "cannot copy '{}' to '{}': {}", from, out.file(name), error.message());
  }
  write_weights(weights, shards, out);
  ExportReport report;
  report.tensors = static_cast<int64_t>(heads.size());
  for (const TensorHead& head : heads) {
    const TensorInfo* info = weights.find(head.name);
    report.bytes += info->end - info->begin;
  }
  if (options.on_written) options.on_written(out.path());
  check_logits(source, out, report);
  out.rename_to(options.out);
  for (const auto& entry : fs::directory_iterator(options.out)) {
    report.files.push_back(entry.path().filename().string());
  }
  std::sort(report.files.begin(), report.files.end());
  return report;
}

}  // namespace tessera
