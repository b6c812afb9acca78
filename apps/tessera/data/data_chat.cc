#include "data/data_chat.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "data/chat_folder.h"
#include "data/conversation.h"
#include "data/template/assistant_spans.h"

namespace tessera {
namespace {

// "2026-11-16" or "2026-11-16 09:30": nothing is rounded, and no time zone has a say.
std::tm parse_now(const std::string& text) {
  std::tm time = {};
  for (const char* format : {"%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
    time = {};
    const char* end = strptime(text.c_str(), format, &time);
    if (end == nullptr || *end != '\0') continue;
    std::tm normal = time;
    timegm(&normal);  // finds the day of the week and of the year
    if (normal.tm_mday == time.tm_mday) return normal;
  }
  throw ConfigError(fmt::format("--now is '{}': expected a date, such as 2026-11-16", text));
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm time = {};
  localtime_r(&now, &time);
  return time;
}

struct ShownChat {
  int64_t line = 0;
  size_t num_messages = 0;
  RenderedChat chat;
};

// Templates are parsed once each.
class ChatRenderer {
 public:
  explicit ChatRenderer(const DataChatOptions& options)
      : options_(options),
        folder_(read_chat_folder(options.template_path)),
        now_(options.now.empty() ? local_time() : parse_now(options.now)) {}

  ShownChat render(const std::string& text, int64_t line) {
    const std::string place = fmt::format("{}:{}", options_.file, line);
    nlohmann::ordered_json context = folder_.special_tokens;
    context.update(parse_conversation(text, place));
    const bool has_tools = context["tools"].is_array() && !context["tools"].empty();
    const NamedTemplate& named = choose_template(folder_, options_.template_name, has_tools);
    auto found = parsed_.find(named.name);
    if (found == parsed_.end()) {
      found = parsed_.emplace(named.name, ChatTemplate::parse(named.source, named.place)).first;
    }
    try {
      return {line, context["messages"].size(), render_for_training(found->second, context, now_)};
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", place, error.what()));
    }
  }

 private:
  const DataChatOptions& options_;
  ChatFolder folder_;
  std::tm now_;
  std::map<std::string, ChatTemplate> parsed_;
};

// The text with {+ and +} around what carries loss, as word-by-word differences are shown.
std::string with_marks(const RenderedChat& chat) {
  std::string marked;
  size_t at = 0;
  for (const TextSpan& span : chat.generated) {
    marked += chat.text.substr(at, span.begin - at) + "{+";
    marked += chat.text.substr(span.begin, span.end - span.begin) + "+}";
    at = span.end;
  }
  return marked + chat.text.substr(at);
}

void print_chat(const ShownChat& shown, Console& console) {
  size_t loss_bytes = 0;
  for (const TextSpan& span : shown.chat.generated) loss_bytes += span.end - span.begin;
  console.out << fmt::format("line {}: {}, {} of {} bytes carry loss\n", shown.line,
                             count_of(static_cast<int64_t>(shown.num_messages), "message"),
                             loss_bytes, shown.chat.text.size())
              << with_marks(shown.chat) << "\n\n";
}

nlohmann::ordered_json as_json(const ShownChat& shown) {
  auto spans = nlohmann::ordered_json::array();
  for (const TextSpan& span : shown.chat.generated) spans.push_back({span.begin, span.end});
  return {{"line", shown.line},
          {"messages", shown.num_messages},
          {"text", shown.chat.text},
          {"loss", std::move(spans)}};
}

}  // namespace

Command add_data_chat(CLI::App& data) {
  CLI::App* chat = add_command(
      data, "chat",
      {"Show conversations as a chat template writes them, and what of them carries loss.",
       "tessera data chat chats.jsonl --template DIR",
       "tessera data chat chats.jsonl --template "
       "chat.jinja --json"});
  auto options = std::make_shared<DataChatOptions>();
  must_be_given(add_text(*chat, "file", options->file, "FILE",
                         "conversations, one JSON object with \"messages\" per line"));
  must_be_given(add_text(*chat, "--template", options->template_path, "FILE|DIR",
                         "a Jinja template, or a Hugging Face folder that has one"));
  add_text(*chat, "--template-name", options->template_name, "NAME",
           "which of several (default: tool_use for conversations with tools, else default)");
  add_text(*chat, "--now", options->now, "DATE",
           "the date for templates that print it, such as 2026-11-16 (default: now)");
  add_whole(*chat, "--limit", options->limit, 1, "show so many conversations (default 10)");
  add_switch(*chat, "--json", options->json, "print JSON: texts, and the bytes that carry loss");
  return {chat, [options](Console& console) { return run_data_chat(*options, console); }};
}

int run_data_chat(const DataChatOptions& options, Console& console) {
  ChatRenderer renderer(options);
  std::ifstream file(options.file, std::ios::binary);
  require_config(file.good(), "cannot open '{}': {}", options.file, std::strerror(errno));
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"conversations", nlohmann::ordered_json::array()}};
  std::string text;
  int64_t shown = 0;
  for (int64_t line = 1; shown < options.limit && std::getline(file, text); ++line) {
    if (trim(text).empty()) continue;
    const ShownChat chat = renderer.render(text, line);
    ++shown;
    if (options.json) {
      json["conversations"].push_back(as_json(chat));
    } else {
      print_chat(chat, console);
    }
  }
  require_config(shown > 0, "'{}' has no conversation: it wants a JSON object on each line",
                 options.file);
  if (options.json) console.out << json.dump(2) << '\n';
  return 0;
}

}  // namespace tessera
