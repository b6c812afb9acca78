// The chat template of a Hugging Face folder.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

struct NamedTemplate {
  std::string name;   // "default", "tool_use", ...
  std::string place;  // for messages: the file
  std::string source;
};

struct ChatFolder {
  std::vector<NamedTemplate> templates;   // at least one
  nlohmann::ordered_json special_tokens;  // bos_token, eos_token, ...: what templates name
};

// `path` is a template, or a folder: chat_template.jinja and additional_chat_templates/NAME.jinja,
// else "chat_template" of tokenizer_config.json (one, or a list of named ones). Special tokens come
// from tokenizer_config.json and special_tokens_map.json beside it. Throws ConfigError for what is
// missing, unreadable or not of this shape.
// "eos_token" and the like, as tokenizer_config.json and special_tokens_map.json of a folder name
// them; `path` is the folder, or a file in it. Empty where there are none.
nlohmann::ordered_json special_tokens_of(const std::filesystem::path& path);

ChatFolder read_chat_folder(const std::filesystem::path& path);

// The one called `wanted`; without a name what transformers takes: "tool_use" for conversations
// with tools, where there is one, else "default". Throws ConfigError with the names there are.
const NamedTemplate& choose_template(const ChatFolder& folder, const std::string& wanted,
                                     bool has_tools);

}  // namespace tessera
