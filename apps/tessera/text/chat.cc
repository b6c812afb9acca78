#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "serve/api/answer_json.h"
#include "text/chat_command.h"
#include "text/conversation.h"
#include "train/verify/model_folder.h"

namespace tessera {
namespace {

// What a conversation has room for where nobody says; pages of a larger context take memory that
// few have.
constexpr int64_t kUsualContext = 8192;

constexpr std::string_view kPrompt = "> ", kMorePrompt = ". ";
constexpr std::string_view kHelp =
    "/system TEXT  change the system message; without TEXT: show it\n"
    "/reset        forget the conversation, but for the system message\n"
    "/save FILE    write it as one line of JSON, a request of `tessera generate --in`\n"
    "/quit         end, as ^D does\n"
    "^C stops an answer. A \\ at the end of a line goes on in the next; //TEXT says /TEXT.\n";

class Chat {
 public:
  Chat(const ChatOptions& options, serve::StartedModel& model, bool typed, Console& console)
      : typed_(typed), console_(console), conversation_(model, options.sampling, options.system) {}

  // The exit code; nothing: it goes on.
  std::optional<int> hear(const std::string& line);

 private:
  std::optional<int> say(const std::string& text);
  std::optional<int> obey(const std::string& line);
  void save(const std::string& path);
  void say_why_it_ended(const AnswerEnd& end);
  void tell(const std::string& text) {
    if (!console_.quiet) console_.err << fitted_err(console_, text);
  }

  bool typed_;
  Console& console_;
  Conversation conversation_;
  std::string saved_;  // by this program
};

std::optional<int> Chat::hear(const std::string& line) {
  if (trim(line).empty()) return std::nullopt;
  try {
    if (line.starts_with("//")) return say(line.substr(1));
    return line.starts_with('/') ? obey(line) : say(line);
  } catch (const ConfigError& error) {
    // Somebody who types can mend it.
    if (!typed_) throw;
    report_failure(console_, error.what());
  }
  return std::nullopt;
}

std::optional<int> Chat::say(const std::string& text) {
  const InterruptGuard interrupt;
  const AnswerEnd end = conversation_.say(
      text, [&] { return interrupt.interrupted(); }, console_);
  if (interrupt.interrupted() && (!typed_ || interrupt.signal() != SIGINT)) {
    return kSignalCode + interrupt.signal();
  }
  say_why_it_ended(end);
  return std::nullopt;
}

void Chat::say_why_it_ended(const AnswerEnd& end) {
  if (end.reason == serve::FinishReason::kCancelled) return tell("(stopped)\n");
  if (end.reason != serve::FinishReason::kLength) return;
  const int64_t context = conversation_.context();
  const int64_t length = end.usage.prompt_tokens + end.usage.answer_tokens;
  if (length >= context) {
    return tell(
        fmt::format("(the context is full: the conversation has {} tokens of {}; /reset "
                    "begins anew, a larger --max-context has room for more)\n",
                    with_thousands(length), with_thousands(context)));
  }
  tell(fmt::format("(the answer ends after --tokens {})\n", end.usage.answer_tokens));
}

std::optional<int> Chat::obey(const std::string& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string word = line.substr(0, end);
  const std::string rest(trim(std::string_view(line).substr(end)));
  if (word == "/quit" || word == "/exit") return 0;
  if (word == "/help") {
    tell(std::string(kHelp));
  } else if (word == "/reset") {
    conversation_.reset();
    tell("(forgotten)\n");
  } else if (word == "/system") {
    if (!rest.empty()) conversation_.set_system(rest);
    const std::string system = conversation_.system();
    tell(system.empty() ? "(there is no system message)\n"
                        : fmt::format("(system: {})\n", printable(system)));
  } else if (word == "/save") {
    save(rest);
  } else {
    throw ConfigError(
        fmt::format("there is no {}: /help says what there is; //{} says it to the "
                    "model",
                    word, word.substr(1)));
  }
  return std::nullopt;
}

void Chat::save(const std::string& path) {
  require_config(!path.empty(), "/save needs the name of a file");
  std::error_code error;
  require_config(path == saved_ || !std::filesystem::exists(path, error),
                 "'{}' is there already: name another file", path);
  const nlohmann::ordered_json json = {{"messages", conversation_.messages()}};
  std::ofstream out(path, std::ios::binary);
  out << serve::dump(json) << '\n' << std::flush;
  require_config(out.good(), "cannot write '{}'", path);
  saved_ = path;
  tell(fmt::format("(saved to {})\n", path));
}

void require_template(const ChatOptions& options, const serve::Words& words) {
  const std::string& model = options.model.model;
  require_config(words.has_text(),
                 "'{}' has no tokenizer, so it reads and writes ids of tokens: --tokenizer DIR "
                 "names one",
                 model);
  require_config(words.has_chat(),
                 "'{}' has no chat template, so it knows no conversations: give it one with "
                 "--chat-template FILE, or continue a text with tessera generate --run {}",
                 model, model);
}

// Lines that end in a \ and the one behind them. Nothing: the end.
std::optional<std::string> whole_line(LineSource& lines, int& signal) {
  std::string text;
  std::string_view prompt = kPrompt;
  while (true) {
    const LineSource::Read read = lines.next(std::string(prompt));
    signal = read.signal;
    if (read.is_end) return text.empty() || signal != 0 ? std::nullopt : std::optional(text);
    text += read.line;
    if (!text.ends_with('\\')) return text;
    text.back() = '\n';
    prompt = kMorePrompt;
  }
}

}  // namespace

Command add_chat(CLI::App& root) {
  CLI::App* app = add_command(
      root, "chat",
      {"Talk with a model that knows conversations.", "tessera chat DIR --system \"Be brief.\"",
       "tessera generate --run DIR --prompt \"Once upon a time\""});
  auto options = std::make_shared<ChatOptions>();
  must_be_given(add_text(*app, "model", options->model.model, "MODEL",
                         "a Hugging Face folder, a run directory or a checkpoint"));
  add_text(*app, "--system", options->system, "TEXT", "the message that conversations begin with");
  add_sampling_flags(*app, options->sampling,
                     "longest answer (default: what the context has room for)");
  add_model_flags(*app, options->model, /*chats=*/true);
  return {app, [options](Console& console) { return run_chat(*options, console); }};
}

int converse(const ChatOptions& options, serve::StartedModel& model, LineSource& lines, bool typed,
             Console& console) {
  Chat chat(options, model, typed, console);
  if (typed && !console.quiet) {
    console.err << fitted_err(
        console, fmt::format("tessera: {}, a context of {} tokens; /help says what else there "
                             "is, ^D ends\n",
                             options.model.model, with_thousands(model.served().max_context)));
  }
  int signal = 0;
  while (const std::optional<std::string> line = whole_line(lines, signal)) {
    if (const std::optional<int> code = chat.hear(*line)) return *code;
  }
  return signal == 0 ? 0 : kSignalCode + signal;
}

int run_chat(const ChatOptions& options, Console& console) {
  check_sampling(options.sampling);
  serve::StartOptions start = start_options(options.model);
  require_config(start.replicas == 1,
                 "--mesh {}: one conversation is with one copy of the model; leave out dp",
                 options.model.mesh);
  const ModelFolder folder = open_model_folder(options.model.model);
  const serve::ContextLimits limits = serve::context_limits(folder);
  require_template(options, *speech_of(options.model, folder).words);
  serve::ServeOptions& ranks = start.ranks;
  ranks.max_context = context_of(options.model, limits, console);
  if (options.model.max_context == 0) {
    ranks.max_context = std::min(ranks.max_context, kUsualContext);
  }
  ranks.num_pages = ceil_div(ranks.max_context, ranks.page_size) + 1;
  ranks.max_tokens = std::min(ranks.max_tokens, ranks.max_context);
  ranks.max_sequences = ranks.max_rows = 1;
  std::unique_ptr<serve::StartedModel> model;
  {
    const InterruptGuard interrupt;
    model = start_unless([&] { return interrupt.interrupted(); }, std::move(start));
    if (model == nullptr) return kSignalCode + interrupt.signal();
  }
  const bool typed = isatty(STDIN_FILENO) == 1 && console.err_is_terminal;
  TypedLines lines(STDIN_FILENO, typed, console);
  return converse(options, *model, lines, typed, console);
}

}  // namespace tessera
