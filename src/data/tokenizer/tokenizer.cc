#include "data/tokenizer/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text/json.h"
#include "data/tokenizer/common/string_table.h"
#include "data/tokenizer/fingerprint.h"
#include "data/tokenizer/model/model_lists.h"
#include "data/tokenizer/model/read_model.h"
#include "data/tokenizer/model/vocabulary.h"
#include "data/tokenizer/tokenizer_parts.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// The largest in use has 34 MB.
constexpr size_t kMostBytes = size_t{256} << 20;

std::string read_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  require_config(!error,
                 "cannot read tokenizer '{}': {}; name a folder with a "
                 "tokenizer.json, or the file",
                 path.string(), error.message());
  require_config(size <= kMostBytes, "tokenizer '{}' has {} bytes, more than the limit of {}",
                 path.string(), size, kMostBytes);
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  require(static_cast<uintmax_t>(file.gcount()) == size, "cannot read tokenizer '{}'",
          path.string());
  return text;
}

const nlohmann::json& null_json() {
  static const nlohmann::json null;
  return null;
}

// A part of the file that may be left out.
JsonPlace optional_part(const JsonPlace& root, std::string_view key) {
  return root.has(key) ? root.at(key) : JsonPlace(null_json(), root.place());
}

bool has_first_scheme(const nlohmann::json& json) {
  if (json.is_object() && json.value("prepend_scheme", nlohmann::json()) == "first") return true;
  return json.is_structured() && std::any_of(json.begin(), json.end(), has_first_scheme);
}

int32_t id_limit(const TokenizerParts& parts) {
  int32_t limit = parts.model->id_limit();
  for (const AddedToken& token : parts.added.tokens()) limit = std::max(limit, token.id + 1);
  return limit;
}

// `lists`: null, or what stands for the lists of the model.
std::unique_ptr<const TokenizerParts> read_parts(const JsonPlace& root, const ModelLists* lists) {
  if (root.has("version") && root.at("version").value() != "1.0") {
    root.at("version").fail("expected \"1.0\"");
  }
  auto parts = std::make_unique<TokenizerParts>();
  // Beside everything else: it takes as long as making the model.
  std::future<std::string> fingerprint = std::async(std::launch::async, [&root, lists] {
    return lists != nullptr ? tokenizer_fingerprint(root.value(), *lists)
                            : tokenizer_fingerprint(root.value());
  });
  const JsonPlace model = root.at("model");
  const JsonPlace splits = optional_part(root, "pre_tokenizer");
  parts->normalizer = read_normalizer(optional_part(root, "normalizer"));
  parts->pre_tokenization = read_pre_tokenizer(splits, model_takes_bytes(model));
  parts->model = read_model(model, parts->pre_tokenization.ends_in_bytes, lists);
  const nlohmann::json none = nlohmann::json::array();
  const JsonPlace added =
      root.has("added_tokens") ? root.at("added_tokens") : JsonPlace(none, root.place());
  parts->added = AddedTokens::read(added, *parts->model, parts->normalizer.get());
  parts->post_processing = read_post_processor(optional_part(root, "post_processor"));
  parts->decoder = read_decoder(optional_part(root, "decoder"));
  parts->must_track = parts->normalizer != nullptr && has_first_scheme(splits.value());
  parts->vocab_size = id_limit(*parts);
  for (const PostProcessing::Part& part : parts->post_processing.parts) {
    for (const int32_t id : part.ids) {
      if (id >= parts->vocab_size) {
        root.at("post_processor")
            .fail(fmt::format("id {} is not below {}, the size of the vocabulary", id,
                              parts->vocab_size));
      }
    }
  }
  parts->fingerprint = fingerprint.get();
  return parts;
}

// None where there is anything wrong: its place would be wrong, so the whole file is parsed then.
std::optional<nlohmann::json> parsed_quietly(std::string_view json, const std::string& name) {
  try {
    return parse_json(json, name, kMostBytes);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  if (json.size() <= kMostBytes) {
    if (const std::optional<SplitModel> split = split_model(json)) {
      const std::optional<nlohmann::json> rest = parsed_quietly(split->rest, name);
      if (rest) return Tokenizer(read_parts(JsonPlace(*rest, name + ":"), &split->lists));
    }
  }
  const nlohmann::json document = parse_json(json, name, kMostBytes);
  return Tokenizer(read_parts(JsonPlace(document, name + ":"), nullptr));
}

Tokenizer Tokenizer::load(const fs::path& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path file = is_folder ? path / "tokenizer.json" : path;
  require_config(!is_folder || fs::exists(file, error),
                 "folder '{}' has no tokenizer.json: name a Hugging Face folder that has one",
                 path.string());
  return parse(read_file(file), file.string());
}

int32_t Tokenizer::vocab_size() const { return parts_->vocab_size; }

const std::string& Tokenizer::fingerprint() const { return parts_->fingerprint; }

int32_t Tokenizer::id_of(std::string_view token) const {
  return parts_->added.id_of(token).value_or(parts_->model->id_of(token));
}

std::string_view Tokenizer::token_of(int32_t id) const {
  for (const AddedToken& token : parts_->added.tokens()) {
    if (token.id == id) return token.content;
  }
  return parts_->model->token_of(id);
}

std::string_view Tokenizer::text_of(int32_t id) const {
  if (const std::string* text = parts_->added.text_of(id)) return *text;
  return parts_->model->token_of(id);
}

bool Tokenizer::is_special(int32_t id) const { return parts_->added.is_special(text_of(id)); }

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (const int32_t id : ids) {
    const std::string_view text = text_of(id);
    if (text.empty() || (skip_special && parts_->added.is_special(text))) continue;
    texts.emplace_back(text);
  }
  std::string decoded;
  if (parts_->decoder == nullptr) {
    for (size_t i = 0; i < texts.size(); ++i) decoded += (i > 0 ? " " : "") + texts[i];
    return decoded;
  }
  parts_->decoder->apply(texts);
  for (const std::string& text : texts) decoded += text;
  return decoded;
}

}  // namespace tessera
