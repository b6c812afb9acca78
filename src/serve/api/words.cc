#include "serve/api/words.h"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "data/chat_folder.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/stream_decoder.h"
#include "data/tokenizer/tokenizer_parts.h"

namespace tessera::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::tm time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm time = {};
  localtime_r(&now, &time);
  return time;
}

// The templates of a folder, each parsed once.
class Templates {
 public:
  explicit Templates(const fs::path& path) : folder_(read_chat_folder(path)) {
    for (const NamedTemplate& one : folder_.templates) {
      parsed_.emplace(one.name, ChatTemplate::parse(one.source, one.place));
    }
  }

  [[nodiscard]] std::string render(nlohmann::ordered_json asked) const {
    nlohmann::ordered_json context = folder_.special_tokens;
    context.update(asked);
    const bool has_tools = context.contains("tools") && context["tools"].is_array();
    const NamedTemplate& chosen = choose_template(folder_, "", has_tools);
    return parsed_.at(chosen.name).render(context, time_now()).text;
  }

 private:
  ChatFolder folder_;
  std::map<std::string, ChatTemplate> parsed_;
};

std::optional<Templates> templates_of(const fs::path& folder, const fs::path& named) {
  if (!named.empty()) return Templates(named);
  if (folder.empty()) return std::nullopt;
  std::error_code error;
  const bool has_file = fs::exists(folder / "chat_template.jinja", error) ||
                        fs::exists(folder / "additional_chat_templates", error);
  if (!has_file) {
    const fs::path config = folder / "tokenizer_config.json";
    std::ifstream in(config, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (text.empty()) return std::nullopt;
    const nlohmann::json json = parse_json(text, config.string());
    const bool has =
        json.is_object() && json.contains("chat_template") && !json["chat_template"].is_null();
    if (!has) return std::nullopt;
  }
  return Templates(folder);
}

[[noreturn]] void refuse_chat() {
  throw ConfigError(
      "this model has no chat template: use /v1/completions, or serve it with --chat-template "
      "FILE");
}

std::string replaced_where_broken(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Character character = first_character(bytes);
    text += character.valid ? bytes.substr(0, character.bytes) : kReplacement;
    bytes.remove_prefix(character.valid ? character.bytes : 1);
  }
  return text;
}

class ByteDecoder final : public TextDecoder {
 public:
  std::string push(int32_t token) override {
    if (token < 0 || token > 255) return "";
    held_ += static_cast<char>(token);
    std::string text;
    while (!held_.empty()) {
      const Character character = first_character(held_);
      if (character.cut_off) break;
      text += character.valid ? std::string_view(held_).substr(0, character.bytes) : kReplacement;
      held_.erase(0, character.valid ? character.bytes : 1);
    }
    return text;
  }
  std::string finish() override {
    return held_.empty() ? "" : replaced_where_broken(std::exchange(held_, {}));
  }

 private:
  std::string held_;  // of a character that is not complete
};

class ByteWords final : public Words {
 public:
  explicit ByteWords(const fs::path& template_path) : templates_(templates_of({}, template_path)) {}

  [[nodiscard]] bool has_text() const override { return true; }
  [[nodiscard]] bool is_bytes() const override { return true; }
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (const char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
    return tokens;
  }
  [[nodiscard]] std::unique_ptr<TextDecoder> decoder() const override {
    return std::make_unique<ByteDecoder>();
  }
  [[nodiscard]] std::string text_of(int32_t token) const override {
    return replaced_where_broken(bytes_of(token));
  }
  [[nodiscard]] std::string bytes_of(int32_t token) const override {
    return token < 0 || token > 255 ? "" : std::string(1, static_cast<char>(token));
  }
  [[nodiscard]] int32_t special_token(std::string_view) const override { return -1; }
  [[nodiscard]] const std::vector<int32_t>& end_tokens() const override { return none_; }
  [[nodiscard]] int64_t vocab() const override { return 256; }
  [[nodiscard]] std::string render_chat(nlohmann::ordered_json context) const override {
    if (!templates_.has_value()) refuse_chat();
    return templates_->render(std::move(context));
  }
  [[nodiscard]] bool has_chat() const override { return templates_.has_value(); }

 private:
  std::optional<Templates> templates_;
  std::vector<int32_t> none_;
};

class NoDecoder final : public TextDecoder {
 public:
  std::string push(int32_t) override { return ""; }
  std::string finish() override { return ""; }
};

class NoWords final : public Words {
 public:
  explicit NoWords(std::vector<int32_t> end_tokens) : end_tokens_(std::move(end_tokens)) {}

  [[nodiscard]] bool has_text() const override { return false; }
  [[nodiscard]] std::vector<int32_t> encode(std::string_view, bool) const override {
    throw ConfigError(
        "this model has no tokenizer, so it reads and writes token ids alone: give the prompt as a "
        "list of ids, and read token_ids of the choices; or put its tokenizer.json beside it");
  }
  [[nodiscard]] std::unique_ptr<TextDecoder> decoder() const override {
    return std::make_unique<NoDecoder>();
  }
  [[nodiscard]] std::string text_of(int32_t token) const override {
    return fmt::format("token_id:{}", token);
  }
  [[nodiscard]] std::string bytes_of(int32_t) const override { return ""; }
  [[nodiscard]] int32_t special_token(std::string_view) const override { return -1; }
  [[nodiscard]] const std::vector<int32_t>& end_tokens() const override { return end_tokens_; }
  [[nodiscard]] int64_t vocab() const override { return 0; }
  [[nodiscard]] std::string render_chat(nlohmann::ordered_json) const override { refuse_chat(); }
  [[nodiscard]] bool has_chat() const override { return false; }

 private:
  std::vector<int32_t> end_tokens_;
};

class StreamedTokens final : public TextDecoder {
 public:
  explicit StreamedTokens(const Tokenizer& tokenizer) : decoder_(tokenizer, true) {}
  std::string push(int32_t token) override { return decoder_.push(token); }
  std::string finish() override { return decoder_.finish(); }

 private:
  StreamDecoder decoder_;
};

class TokenWords final : public Words {
 public:
  TokenWords(const fs::path& folder, const fs::path& template_path)
      : tokenizer_(Tokenizer::load(folder)), templates_(templates_of(folder, template_path)) {
    end_tokens_ = end_tokens_of(folder);
    const std::string eos = special_tokens_of(folder).value("eos_token", "");
    eos_ = eos.empty() ? -1 : tokenizer_.id_of(eos);
    const bool known = std::find(end_tokens_.begin(), end_tokens_.end(), eos_) != end_tokens_.end();
    if (eos_ >= 0 && !known) end_tokens_.push_back(eos_);
  }

  [[nodiscard]] bool has_text() const override { return true; }
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool whole) const override {
    std::vector<int32_t> tokens;
    std::unique_ptr<TokenEncoder> encoder = borrow_encoder();
    encoder->encode(text, whole, tokens);
    give_back(std::move(encoder));
    // Some tokenizers end a text themselves; this one goes on.
    if (whole && tokens.size() > 1 && tokens.back() == eos_) tokens.pop_back();
    return tokens;
  }
  [[nodiscard]] std::unique_ptr<TextDecoder> decoder() const override {
    return std::make_unique<StreamedTokens>(tokenizer_);
  }
  [[nodiscard]] std::string text_of(int32_t token) const override {
    return replaced_where_broken(bytes_of(token));
  }
  [[nodiscard]] std::string bytes_of(int32_t token) const override {
    const std::string_view text = tokenizer_.text_of(token);
    const auto& decoder = tokenizer_.parts().decoder;
    if (text.empty()) return "";
    if (decoder != nullptr && decoder->is_byte_level()) {
      return tessera::bytes_of(text).value_or(std::string(text));
    }
    if (decoder != nullptr) {
      if (const auto byte = decoder->byte_of(text)) return {*byte};
    }
    // As it stands behind itself: some decoders write the first token of a text in another way.
    const int32_t twice[] = {token, token};
    const std::string one = tokenizer_.decode(std::span(twice).first(1), false);
    const std::string two = tokenizer_.decode(twice, false);
    return two.starts_with(one) ? two.substr(one.size()) : one;
  }
  [[nodiscard]] int32_t special_token(std::string_view text) const override {
    const int32_t id = tokenizer_.id_of(text);
    return id >= 0 && tokenizer_.is_special(id) ? id : -1;
  }
  [[nodiscard]] const std::vector<int32_t>& end_tokens() const override { return end_tokens_; }
  [[nodiscard]] int64_t vocab() const override { return tokenizer_.vocab_size(); }
  [[nodiscard]] std::string render_chat(nlohmann::ordered_json context) const override {
    if (!templates_.has_value()) refuse_chat();
    return templates_->render(std::move(context));
  }
  [[nodiscard]] bool has_chat() const override { return templates_.has_value(); }

 private:
  // An encoder remembers what it saw, so those that are free are kept.
  [[nodiscard]] std::unique_ptr<TokenEncoder> borrow_encoder() const {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<TokenEncoder>(tokenizer_);
    auto encoder = std::move(free_.back());
    free_.pop_back();
    return encoder;
  }
  void give_back(std::unique_ptr<TokenEncoder> encoder) const {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(encoder));
  }

  Tokenizer tokenizer_;
  std::optional<Templates> templates_;
  std::vector<int32_t> end_tokens_;
  int32_t eos_ = -1;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<TokenEncoder>> free_;
};

void add_end_tokens(const fs::path& path, std::vector<int32_t>& tokens) {
  std::ifstream in(path, std::ios::binary);
  if (!in.good()) return;
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const nlohmann::json json = parse_json(text, path.string());
  if (!json.is_object() || !json.contains("eos_token_id") || json["eos_token_id"].is_null()) return;
  const nlohmann::json& found = json["eos_token_id"];
  for (const nlohmann::json& id : found.is_array() ? found : nlohmann::json::array({found})) {
    require_config(id.is_number_integer() && id >= 0 && id <= INT32_MAX,
                   "{}: eos_token_id is {}: neither a token nor a list of tokens", path.string(),
                   shortened(found.dump(), 60));
    tokens.push_back(id.get<int32_t>());
  }
}

}  // namespace

std::vector<int32_t> end_tokens_of(const fs::path& folder) {
  std::vector<int32_t> tokens;
  add_end_tokens(folder / "generation_config.json", tokens);
  if (tokens.empty()) add_end_tokens(folder / "config.json", tokens);
  return tokens;
}

std::shared_ptr<const Words> words_of_folder(const fs::path& folder,
                                             const fs::path& template_path) {
  return std::make_shared<TokenWords>(folder, template_path);
}

std::shared_ptr<const Words> words_of_bytes(const fs::path& template_path) {
  return std::make_shared<ByteWords>(template_path);
}

std::shared_ptr<const Words> no_words(std::vector<int32_t> end_tokens) {
  return std::make_shared<NoWords>(std::move(end_tokens));
}

}  // namespace tessera::serve
