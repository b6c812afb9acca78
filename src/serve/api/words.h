// What a served model speaks: the tokens of a tokenizer, bytes, or ids that have no text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::serve {

// Tokens into text, one by one. Every part is whole characters: U+FFFD stands for what is none. Not
// thread-safe; the words must outlive it.
class TextDecoder {
 public:
  virtual ~TextDecoder() = default;
  virtual std::string push(int32_t token) = 0;
  // What was held back.
  virtual std::string finish() = 0;
};

// Thread-safe.
class Words {
 public:
  virtual ~Words() = default;
  // False: prompts and answers are ids alone.
  [[nodiscard]] virtual bool has_text() const = 0;
  // True: every byte is a token, so an answer may be bytes that are no text.
  [[nodiscard]] virtual bool is_bytes() const { return false; }
  // `whole`: a text of its own, with the special tokens that the model wants around one; else a
  // part, such as what a chat template wrote, with special tokens where it names them. Throws
  // ConfigError where there is no text.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text, bool whole) const = 0;
  [[nodiscard]] virtual std::unique_ptr<TextDecoder> decoder() const = 0;
  // One token alone, as logprobs name it, and its bytes.
  [[nodiscard]] virtual std::string text_of(int32_t token) const = 0;
  [[nodiscard]] virtual std::string bytes_of(int32_t token) const = 0;
  // The special token that is written so; -1: there is none.
  [[nodiscard]] virtual int32_t special_token(std::string_view text) const = 0;
  // Each ends an answer.
  [[nodiscard]] virtual const std::vector<int32_t>& end_tokens() const = 0;
  // Tokens from here on have no meaning; 0: as many as the model has.
  [[nodiscard]] virtual int64_t vocab() const = 0;
  // The prompt for a conversation: text for encode(..., false). `context` has messages, tools and
  // what else the template may name. Throws ConfigError where there is no template, and for what
  // the template refuses.
  [[nodiscard]] virtual std::string render_chat(nlohmann::ordered_json context) const = 0;
  [[nodiscard]] virtual bool has_chat() const = 0;
};

// What a folder with a tokenizer.json speaks: a Hugging Face folder, or a run directory. Its chat
// template and special tokens come along, where it has any; `template_path` stands for its
// template, where it is not empty. Throws ConfigError.
std::shared_ptr<const Words> words_of_folder(const std::filesystem::path& folder,
                                             const std::filesystem::path& template_path = {});
// Every byte is a token. A chat template of `template_path`, where there is one, is written as
// bytes too.
std::shared_ptr<const Words> words_of_bytes(const std::filesystem::path& template_path = {});
// Ids alone.
std::shared_ptr<const Words> no_words(std::vector<int32_t> end_tokens);

// "eos_token_id" of generation_config.json and config.json in a folder: one id or a list. Throws
// ConfigError for what is neither.
std::vector<int32_t> end_tokens_of(const std::filesystem::path& folder);

}  // namespace tessera::serve
