#include "train/verify/evaluate.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "data/set/token_set.h"
#include "data/tokenizer/encoder.h"
#include "spec/run_file/validate.h"
#include "train/save/resume.h"
#include "train/verify/scorer.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Text into ids: through a tokenizer, or byte by byte.
class TextIds {
 public:
  TextIds(const ModelFolder& model, const std::string& given) : vocab_(model.spec.model.vocab) {
    // A run that has none was trained on bytes, whatever the folder had that it began with.
    ModelFolder own{.path = model.path, .is_run = model.is_run, .spec = {}, .origin = {}};
    own.run = model.run;
    const std::string path = given.empty() ? find_beside(own, "tokenizer.json") : given;
    const std::string& wanted = model.tokenizer_hash;
    const bool known = path.empty() || fs::path(path).filename() == "tokenizer.json";
    const fs::path folder = known ? fs::path(path).parent_path() : fs::path(path);
    const std::string found = path.empty() ? "" : tokenizer_hash_in(folder.string());
    require_config(wanted.empty() || found == wanted,
                   "'{}' was trained with a tokenizer of SHA-256 {}, but {}: name that one with "
                   "--tokenizer",
                   model.path, wanted,
                   found.empty() ? "none is beside it" : fmt::format("'{}' has {}", path, found));
    if (path.empty()) {
      require_config(vocab_ >= 256 && model.is_run,
                     "'{}' has no tokenizer.json: name one with --tokenizer", model.path);
      return;
    }
    tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::load(path));
    encoder_ = std::make_unique<TokenEncoder>(*tokenizer_);
  }

  // Empty where bytes are the tokens.
  [[nodiscard]] std::string fingerprint() const {
    return tokenizer_ == nullptr ? "" : tokenizer_->fingerprint();
  }

  std::vector<int32_t> operator()(const std::string& text) {
    std::vector<int32_t> ids;
    if (encoder_ == nullptr) {
      for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
      return ids;
    }
    encoder_->encode(text, /*add_special=*/true, ids);
    for (const int32_t id : ids) {
      require_config(id < vocab_,
                     "the tokenizer gives id {} but the model has a vocabulary of {}: they do not "
                     "belong together",
                     id, vocab_);
    }
    return ids;
  }

 private:
  int64_t vocab_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<TokenEncoder> encoder_;
};

std::ifstream open_file(const std::string& path) {
  std::error_code error;
  require_config(!fs::is_directory(path, error),
                 "--data is '{}', a folder that is no set of tokens: name a file of text, a .jsonl "
                 "of questions, or a set that 'tessera data prepare' made",
                 path);
  std::ifstream in(path, std::ios::binary);
  require_config(in.good(), "cannot read '{}': {}", path, std::strerror(errno));
  return in;
}

std::string read_file(const std::string& path) {
  std::ifstream in = open_file(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A folder of `tessera data prepare`, or the prefix of Megatron's two files.
bool is_set(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(fs::path(path) / kSetFile, error) ||
         fs::is_regular_file(path + ".idx", error) || path.ends_with(".idx");
}

// How many of the last tokens of `whole` are the choice's: what the tokens of the query alone have
// in common with it stands before them.
size_t choice_tokens(const std::vector<int32_t>& query, const std::vector<int32_t>& whole) {
  const auto differ = std::mismatch(query.begin(), query.end(), whole.begin(), whole.end());
  const auto common = static_cast<size_t>(differ.second - whole.begin());
  return whole.size() - std::min(common, whole.size() - 1);
}

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

size_t best_of(const std::vector<double>& scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// Sums over windows in the order of the text, whatever order they are computed in.
class LossSum {
 public:
  explicit LossSum(const Scorer& scorer) : scorer_(scorer) {}

  void add(std::span<const std::vector<int32_t>> windows) {
    std::vector<double> sums(windows.size());
    scorer_.score(windows, [&](size_t i, std::span<const double> log_probabilities) {
      for (const double p : log_probabilities) sums[i] += p;
      tokens_ += std::ssize(log_probabilities);
    });
    for (const double s : sums) sum_ += s;
  }

  [[nodiscard]] TextScore score() const {
    TextScore score;
    score.tokens = tokens_;
    score.loss = -sum_ / static_cast<double>(tokens_);
    return score;
  }

 private:
  const Scorer& scorer_;
  double sum_ = 0;
  int64_t tokens_ = 0;
};

TextScore score_text(const Scorer& scorer, const std::string& path, const ModelFolder& model,
                     TextIds& ids_of, int64_t limit) {
  const std::string text = read_file(path);
  const std::vector<int32_t> ids = ids_of(text);
  require_config(ids.size() >= 2, "'{}' has {}: nothing can be predicted", path,
                 count_of(static_cast<int64_t>(ids.size()), "token"));
  const auto window = static_cast<size_t>(model.spec.train.seq_len);
  std::vector<std::vector<int32_t>> windows;
  for (size_t at = 0; at + 1 < ids.size(); at += window) {
    if (limit > 0 && std::ssize(windows) == limit) break;
    const size_t end = std::min(at + window + 1, ids.size());
    windows.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(at),
                         ids.begin() + static_cast<std::ptrdiff_t>(end));
  }
  LossSum sum(scorer);
  sum.add(windows);
  TextScore score = sum.score();
  const bool whole = score.tokens + 1 == std::ssize(ids);
  score.bytes = whole ? std::ssize(text) : 0;
  return score;
}

// As a text of its tokens, documents one after another: its bytes are not known.
TextScore score_set(const Scorer& scorer, const std::string& path, const ModelFolder& model,
                    const TextIds& ids_of, int64_t limit) {
  constexpr int64_t kWindowsAtOnce = 1024;  // so that memory does not grow with the set
  const TokenSet set = TokenSet::open(path);
  const std::string wanted = ids_of.fingerprint();
  require_config(set.tokenizer().empty() || wanted.empty() || set.tokenizer() == wanted,
                 "--data '{}' was made with another tokenizer (fingerprint {}) than the model's "
                 "({}): prepare it again with that one",
                 path, set.tokenizer(), wanted);
  require_config(set.size() >= 2, "'{}' has {}: nothing can be predicted", path,
                 count_of(set.size(), "token"));
  const int64_t window = model.spec.train.seq_len;
  const int64_t all = (set.size() - 2) / window + 1;
  const int64_t count = limit > 0 ? std::min(limit, all) : all;
  LossSum sum(scorer);
  std::vector<std::vector<int32_t>> windows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * window;
    windows.emplace_back(static_cast<size_t>(std::min(window + 1, set.size() - first)));
    set.copy(first, windows.back(), model.spec.model.vocab);
    if (std::ssize(windows) < kWindowsAtOnce && i + 1 < count) continue;
    sum.add(windows);
    windows.clear();
  }
  return sum.score();
}

ChoiceScore score_questions(const Scorer& scorer, const std::vector<Question>& questions,
                            const ModelFolder& model, TextIds& ids_of) {
  struct Choice {
    size_t question;
    size_t tokens;  // of the choice, at the end
    int64_t characters;
  };
  std::vector<Choice> choices;
  std::vector<std::vector<int32_t>> texts;
  const auto longest = static_cast<size_t>(model.spec.train.seq_len) + 1;
  for (size_t q = 0; q < questions.size(); ++q) {
    const std::vector<int32_t> query = ids_of(questions[q].query);
    for (const std::string& choice : questions[q].choices) {
      std::vector<int32_t> whole = ids_of(questions[q].query + joined(questions[q].query, choice));
      require_config(whole.size() >= 2, "question {}: with its choice '{}' it is one token", q + 1,
                     shortened(choice, 40));
      size_t tokens = choice_tokens(query, whole);
      if (whole.size() > longest) {
        whole.erase(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(longest));
      }
      tokens = std::min(tokens, whole.size() - 1);
      choices.push_back({q, tokens, std::max<int64_t>(1, characters(choice))});
      texts.push_back(std::move(whole));
    }
  }
  std::vector<double> sums(texts.size());
  scorer.score(texts, [&](size_t i, std::span<const double> log_probabilities) {
    for (const double p : log_probabilities.last(choices[i].tokens)) sums[i] += p;
  });
  ChoiceScore score;
  score.questions = std::ssize(questions);
  for (size_t i = 0; i < choices.size();) {
    const Question& question = questions[choices[i].question];
    std::vector<double> plain, normalized;
    for (size_t c = 0; c < question.choices.size(); ++c, ++i) {
      plain.push_back(sums[i]);
      normalized.push_back(sums[i] / static_cast<double>(choices[i].characters));
    }
    score.right += best_of(plain) == question.gold ? 1 : 0;
    score.right_normalized += best_of(normalized) == question.gold ? 1 : 0;
  }
  return score;
}

// Nothing where the file is a text.
std::optional<std::vector<Question>> read_questions(const std::string& path, int64_t limit) {
  if (!path.ends_with(".jsonl")) return std::nullopt;
  std::ifstream in = open_file(path);
  std::vector<Question> questions;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (trim(line).empty()) continue;
    if (limit > 0 && std::ssize(questions) == limit) break;
    questions.push_back(parse_question(line, fmt::format("{}:{}", path, number)));
  }
  require_config(!questions.empty(), "'{}' has no question", path);
  return questions;
}

const json* any_of(const json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = object.find(key);
    if (found != object.end()) return &*found;
  }
  return nullptr;
}

size_t right_choice(const json& gold, const Question& question, const std::string& place) {
  std::optional<int64_t> number;
  if (gold.is_number_integer()) number = gold.get<int64_t>();
  if (gold.is_string()) {
    const auto text = gold.get<std::string>();
    const bool letter = text.size() == 1 && text[0] >= 'A' && text[0] <= 'Z';
    const bool digit = text.size() == 1 && text[0] >= '0' && text[0] <= '9';
    if (letter) number = text[0] - 'A';
    if (digit) number = text[0] - '0';
  }
  require_config(
      number.has_value() && *number >= 0 && *number < std::ssize(question.choices),
      "{}: the right choice is {}, expected a number from 0 to {} (\"gold\", \"label\" or "
      "\"answer\")",
      place, gold.dump(), question.choices.size() - 1);
  return static_cast<size_t>(*number);
}

}  // namespace

double TextScore::perplexity() const { return std::exp(loss); }

double TextScore::bits_per_byte() const {
  return loss * static_cast<double>(tokens) / std::log(2.0) / static_cast<double>(bytes);
}

std::string joined(const std::string& query, const std::string& choice) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  const bool spaced =
      query.empty() || is_space(query.back()) || choice.empty() || is_space(choice.front());
  return spaced ? choice : " " + choice;
}

Question parse_question(const std::string& line, const std::string& place) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  require_config(object.is_object(), "{}: this is no JSON object", place);
  Question question;
  const json* query = any_of(object, {"query", "context", "question"});
  require_config(query != nullptr && query->is_string(),
                 "{}: there is no \"query\" (or \"context\", \"question\") that is a text", place);
  question.query = query->get<std::string>();
  const json* choices = any_of(object, {"choices"});
  require_config(choices != nullptr && choices->is_array() && choices->size() >= 2,
                 "{}: \"choices\" must be a list of at least two texts", place);
  for (const json& choice : *choices) {
    require_config(choice.is_string() && !choice.get_ref<const std::string&>().empty(),
                   "{}: \"choices\" has {}, expected texts", place, choice.dump());
    question.choices.push_back(choice.get<std::string>());
  }
  const json* gold = any_of(object, {"gold", "label", "answer"});
  require_config(gold != nullptr, "{}: there is no \"gold\" (or \"label\", \"answer\")", place);
  question.gold = right_choice(*gold, question, place);
  return question;
}

std::vector<SetScore> evaluate(const EvaluateOptions& options) {
  require_config(!options.data.empty(),
                 "eval needs --data FILE: a text, questions in a .jsonl, or a set of tokens");
  ModelFolder model = open_model_folder(options.model);
  if (options.seq_len > 0) {
    model.spec.train.seq_len = options.seq_len;
    resolve(model.spec);
  }
  TextIds ids_of(model, options.tokenizer);
  const Scorer scorer(model);
  std::vector<SetScore> scores;
  for (const std::string& file : options.data) {
    SetScore score;
    score.file = file;
    if (is_set(file)) {
      score.text = score_set(scorer, file, model, ids_of, options.limit);
    } else if (const auto questions = read_questions(file, options.limit)) {
      score.choices = true;
      score.choice = score_questions(scorer, *questions, model, ids_of);
    } else {
      score.text = score_text(scorer, file, model, ids_of, options.limit);
    }
    scores.push_back(std::move(score));
  }
  return scores;
}

}  // namespace tessera
