#include "data/chat_folder.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = uintmax_t{16} << 20;
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

std::string read_small_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  require_config(!error, "cannot read '{}': {}", path.string(), error.message());
  require_config(size <= kMaxBytes, "'{}' has {} bytes; the limit is {}", path.string(), size,
                 kMaxBytes);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  require_config(file.good() && bytes.good(), "cannot read '{}'", path.string());
  return std::move(bytes).str();
}

nlohmann::ordered_json read_json_object(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return nlohmann::ordered_json::object();
  nlohmann::ordered_json json = parse_ordered_json(read_small_file(path), path.string());
  require_config(json.is_object(), "'{}' is no JSON object", path.string());
  return json;
}

// A token is its text, or an object that has it.
void add_special_tokens(const nlohmann::ordered_json& config, nlohmann::ordered_json& tokens) {
  for (const char* name : kSpecialTokens) {
    const auto found = config.find(name);
    if (found == config.end() || tokens.contains(name)) continue;
    const nlohmann::ordered_json& token =
        found->is_object() && found->contains("content") ? (*found)["content"] : *found;
    if (token.is_string()) tokens[name] = token;
  }
}

std::vector<NamedTemplate> templates_of_config(const nlohmann::ordered_json& config,
                                               const std::string& place) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return {{"default", place, found->get<std::string>()}};
  require_config(found->is_array(), "{}: \"chat_template\" is neither text nor a list", place);
  std::vector<NamedTemplate> templates;
  for (const nlohmann::ordered_json& one : *found) {
    const bool valid = one.is_object() && one.contains("name") && one["name"].is_string() &&
                       one.contains("template") && one["template"].is_string();
    require_config(valid, "{}: an entry of \"chat_template\" has no \"name\" and \"template\"",
                   place);
    const auto name = one["name"].get<std::string>();
    templates.push_back({name, fmt::format("{} (chat_template '{}')", place, in_quotes(name)),
                         one["template"].get<std::string>()});
  }
  return templates;
}

std::vector<NamedTemplate> templates_of_files(const fs::path& folder) {
  std::vector<NamedTemplate> templates;
  std::error_code error;
  const fs::path main = folder / "chat_template.jinja";
  if (fs::is_regular_file(main, error)) {
    templates.push_back({"default", main.string(), read_small_file(main)});
  }
  std::vector<fs::path> more;
  for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", error)) {
    if (entry.path().extension() == ".jinja") more.push_back(entry.path());
  }
  std::sort(more.begin(), more.end());
  for (const fs::path& path : more) {
    templates.push_back({path.stem().string(), path.string(), read_small_file(path)});
  }
  return templates;
}

}  // namespace

nlohmann::ordered_json special_tokens_of(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::is_directory(path, error) ? path : path.parent_path();
  auto tokens = nlohmann::ordered_json::object();
  add_special_tokens(read_json_object(folder / "tokenizer_config.json"), tokens);
  add_special_tokens(read_json_object(folder / "special_tokens_map.json"), tokens);
  return tokens;
}

ChatFolder read_chat_folder(const std::filesystem::path& path) {
  std::error_code error;
  require_config(fs::exists(path, error),
                 "'{}' does not exist: name a template or a Hugging Face "
                 "folder",
                 path.string());
  ChatFolder chat;
  chat.special_tokens = special_tokens_of(path);
  if (!fs::is_directory(path, error)) {
    chat.templates.push_back({"default", path.string(), read_small_file(path)});
    return chat;
  }
  chat.templates = templates_of_files(path);
  if (chat.templates.empty()) {
    const fs::path config = path / "tokenizer_config.json";
    chat.templates = templates_of_config(read_json_object(config), config.string());
  }
  require_config(!chat.templates.empty(),
                 "'{}' has no chat template: neither chat_template.jinja nor \"chat_template\" in "
                 "tokenizer_config.json; name a template file instead",
                 path.string());
  return chat;
}

const NamedTemplate& choose_template(const ChatFolder& folder, const std::string& wanted,
                                     bool has_tools) {
  const auto find = [&](std::string_view name) -> const NamedTemplate* {
    for (const NamedTemplate& one : folder.templates) {
      if (one.name == name) return &one;
    }
    return nullptr;
  };
  std::vector<std::string_view> names;
  for (const NamedTemplate& one : folder.templates) names.push_back(one.name);
  if (!wanted.empty()) {
    const NamedTemplate* found = find(wanted);
    require_config(found != nullptr, "there is no chat template '{}'; {}", wanted,
                   suggestion(wanted, names, "templates"));
    return *found;
  }
  if (const NamedTemplate* tools = has_tools ? find("tool_use") : nullptr) return *tools;
  const NamedTemplate* found = find("default");
  require_config(found != nullptr, "no chat template is called 'default'; {}",
                 suggestion("default", names, "templates"));
  return *found;
}

}  // namespace tessera
