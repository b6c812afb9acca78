#include "text/continue_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/schema.h"
#include "base/error.h"
#include "base/rounding.h"
#include "base/text/text.h"
#include "cli/interrupt.h"
#include "serve/api/metrics.h"
#include "train/verify/model_folder.h"

namespace tessera {
namespace {

constexpr int64_t kUsualTokens = 200;

std::vector<int32_t> tokens_of(const ContinueOptions& options, const serve::Words& words,
                               int64_t vocab) {
  if (options.token_ids) return read_token_ids(options.prompt, vocab);
  require_config(
      words.has_text(),
      "'{}' has no tokenizer, so it reads and writes ids of tokens: --token-ids --prompt "
      "\"5,1,7\", or --tokenizer DIR",
      options.model.model);
  std::vector<int32_t> tokens = words.encode(options.prompt, /*whole=*/true);
  require_config(!tokens.empty(), "the prompt has no tokens: give some text");
  return tokens;
}

// Writes the text where it goes, part by part.
class TextWriter {
 public:
  TextWriter(const ContinueOptions& options, const serve::Words& words, Console& console)
      : options_(options), words_(words), console_(console) {}

  void begin(const std::vector<int32_t>& prompt) {
    if (options_.json) return;
    if (options_.token_ids) {
      for (const int32_t token : prompt) write_id(token);
      return;
    }
    stream() << options_.prompt << std::flush;
  }
  void add(const serve::TextPart& part) {
    const std::string said = words_.is_bytes() ? bytes_of(part) : part.text;
    text_ += said;
    for (const serve::SampledToken& token : part.tokens) ids_.push_back(token.token);
    if (options_.json) return;
    if (options_.token_ids) {
      for (const serve::SampledToken& token : part.tokens) write_id(token.token);
      console_.out << std::flush;
      return;
    }
    // A model of bytes may say anything: a terminal gets it filtered, a file as it is.
    stream() << (&stream() == &console_.out ? part.text : said) << std::flush;
  }
  void end(const std::vector<int32_t>& prompt, const AnswerEnd& end) {
    if (!options_.json) {
      stream() << '\n' << std::flush;
      return;
    }
    nlohmann::ordered_json json;
    json["schema_version"] = kSchemaVersion;
    json["kind"] = "generation";
    if (options_.token_ids) {
      json["prompt"] = prompt;
      json["token_ids"] = ids_;
    } else {
      json["prompt"] = options_.prompt;
      json["text"] = options_.prompt + text_;
    }
    json["finish_reason"] = serve::name_of(end.reason);
    // A model of bytes may stop inside a character.
    console_.out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }
  [[nodiscard]] int64_t num_tokens() const { return std::ssize(ids_); }

 private:
  [[nodiscard]] std::ostream& stream() const {
    const bool raw = words_.is_bytes() && !console_.out_is_terminal && console_.raw_out != nullptr;
    return raw && !options_.token_ids ? *console_.raw_out : console_.out;
  }
  [[nodiscard]] std::string bytes_of(const serve::TextPart& part) const {
    std::string bytes;
    for (const serve::SampledToken& token : part.tokens) bytes += words_.bytes_of(token.token);
    return bytes;
  }
  void write_id(int32_t token) {
    console_.out << (std::exchange(first_, false) ? "" : " ") << token;
  }

  const ContinueOptions& options_;
  const serve::Words& words_;
  Console& console_;
  std::string text_;
  std::vector<int32_t> ids_;
  bool first_ = true;
};

// How many tokens the answer may have.
int64_t longest_answer(const ContinueOptions& options, const TextRoom& room, int64_t prompt) {
  const int64_t asked = options.sampling.tokens;
  const int64_t needed = prompt + std::max<int64_t>(1, asked);
  if (needed <= room.most) {
    if (asked > 0) return asked;
    // A text that is longer than the model knows gets a rest that is no shorter for that.
    return std::min(kUsualTokens, (prompt < room.made_for ? room.made_for : room.most) - prompt);
  }
  throw ConfigError(fmt::format(
      "the prompt has {} and the answer may have {}: {} together, but {} {}; use {}",
      count_of(prompt, "token"), needed - prompt, needed,
      options.model.max_context > 0 ? "--max-context is"
                                    : fmt::format("'{}' has positions for", options.model.model),
      with_thousands(room.most),
      prompt < room.most ? fmt::format("--tokens {}", room.most - prompt) : "a shorter prompt"));
}

// A text that ends because there is no more room says so, unless the user said how long it is.
void say_why_it_ended(const ContinueOptions& options, const TextRoom& room, const AnswerEnd& end,
                      Console& console) {
  const int64_t length = end.usage.prompt_tokens + end.usage.answer_tokens;
  const bool full = length == room.made_for || length == room.most;
  if (end.reason != serve::FinishReason::kLength || options.sampling.tokens > 0 || !full) return;
  if (console.quiet) return;
  console.err << fitted_err(
      console,
      fmt::format("tessera: the text ends here: a prompt of {} and {} more are what '{}' was made "
                  "for{}\n",
                  count_of(end.usage.prompt_tokens, "token"), end.usage.answer_tokens,
                  options.model.model, length < room.most ? "; --tokens N lets it go on" : ""));
}

}  // namespace

std::vector<int32_t> read_token_ids(const std::string& text, int64_t vocab) {
  std::string spaced = text;
  std::replace_if(
      spaced.begin(), spaced.end(), [](char c) { return c == ',' || c == '[' || c == ']'; }, ' ');
  std::vector<int32_t> ids;
  for (const std::string_view word : split(trim(spaced), ' ')) {
    if (word.empty()) continue;
    int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    require_config(error == std::errc() && end == word.data() + word.size() && id >= 0,
                   "--prompt has '{}' among ids of tokens: write them as \"5,1,7\"", word);
    require_config(id < vocab, "--prompt has the token {}: the model has 0 to {}", id, vocab - 1);
    ids.push_back(id);
  }
  require_config(!ids.empty(), "--prompt has no ids of tokens: write them as \"5,1,7\"");
  return ids;
}

AnswerEnd continue_text(const ContinueOptions& options, const TextRoom& room,
                        serve::StartedModel& model, const std::function<bool()>& unwanted,
                        Console& console) {
  const serve::ServedModel& served = model.served();
  const std::vector<int32_t> prompt = tokens_of(options, *served.words, served.vocab);
  const int64_t longest = longest_answer(options, room, std::ssize(prompt));
  serve::ServeMetrics metrics;
  serve::AnswerDesk desk(model.generator(), metrics, *served.words, /*workers=*/1);
  TextWriter writer(options, *served.words, console);
  writer.begin(prompt);
  AnswerEnd end;
  try {
    end = follow_answer(
        desk, model, ask_one(options.sampling, served, serve::Shape::kCompletion, prompt, longest),
        [&](const serve::TextPart& part) { writer.add(part); }, unwanted);
  } catch (const Error&) {
    if (!options.json) console.out << std::endl;
    throw;
  }
  writer.end(prompt, end);
  say_why_it_ended(options, room, end, console);
  return end;
}

int continue_text(const ContinueOptions& options, Console& console) {
  const InterruptGuard interrupt;
  const auto unwanted = [&] { return interrupt.interrupted(); };
  serve::StartOptions start = start_options(options.model);
  require_config(start.replicas == 1,
                 "--mesh {}: one text is written by one copy of the model; dp goes with --in",
                 options.model.mesh);
  const ModelFolder folder = open_model_folder(options.model.model);
  const serve::ContextLimits limits = serve::context_limits(folder);
  const TextRoom room = {
      .made_for = limits.made_for,
      .most = options.model.max_context > 0 ? checked_context(options.model, limits) : limits.most};
  // What is too long is told before weights are read, and no more is kept than the text needs.
  const serve::Speech speech = speech_of(options.model, folder);
  const auto prompt = std::ssize(tokens_of(options, *speech.words, folder.spec.model.vocab));
  serve::ServeOptions& ranks = start.ranks;
  ranks.max_context = prompt + longest_answer(options, room, prompt);
  warn_beyond(ranks.max_context, options.model, limits, console);
  ranks.num_pages = ceil_div(ranks.max_context, ranks.page_size) + 1;
  ranks.max_tokens = std::min(ranks.max_tokens, ranks.max_context);
  ranks.max_sequences = ranks.max_rows = 1;
  const auto model = start_unless(unwanted, std::move(start));
  if (model != nullptr) continue_text(options, room, *model, unwanted, console);
  return interrupt.interrupted() ? kSignalCode + interrupt.signal() : 0;
}

}  // namespace tessera
