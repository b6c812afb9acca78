#include "serve/start/speech.h"

#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"
#include "serve/grammar/grammar.h"

namespace tessera::serve {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 256;

// Grammars that were asked for before, the last one first. Thread-safe.
class GrammarShelf {
 public:
  using MakeTokens = std::function<std::shared_ptr<const TokenBytes>()>;

  GrammarShelf(MakeTokens make_tokens, std::vector<int32_t> end_tokens)
      : make_tokens_(std::move(make_tokens)), end_tokens_(std::move(end_tokens)) {}

  std::unique_ptr<TokenGrammar> make(const nlohmann::ordered_json& schema) {
    return make_grammar(find(schema), tokens(), end_tokens_);
  }

 private:
  // So many, with the masks that they remember, and no schema longer than this.
  static constexpr size_t kMost = 16;
  static constexpr int64_t kMaskBytes = int64_t{16} << 20;

  struct Kept {
    std::string schema;
    std::shared_ptr<const CompiledGrammar> compiled;
  };

  std::shared_ptr<const CompiledGrammar> find(const nlohmann::ordered_json& schema) {
    const std::string text = schema.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    {
      const std::scoped_lock lock(mutex_);
      for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
        if (kept->schema != text) continue;
        kept_.splice(kept_.begin(), kept_, kept);
        return kept->compiled;
      }
    }
    // Two that ask for it at once both make it.
    GrammarLimits limits;
    limits.cached_bytes = kMaskBytes;
    auto compiled = compile_schema(schema, limits);
    const std::scoped_lock lock(mutex_);
    kept_.push_front({text, compiled});
    if (kept_.size() > kMost) kept_.pop_back();
    return compiled;
  }

  // Made when somebody first wants a grammar.
  std::shared_ptr<const TokenBytes> tokens() {
    std::call_once(once_, [this] { tokens_ = make_tokens_(); });
    return tokens_;
  }

  MakeTokens make_tokens_;
  std::vector<int32_t> end_tokens_;
  std::once_flag once_;
  std::shared_ptr<const TokenBytes> tokens_;
  std::mutex mutex_;
  std::list<Kept> kept_;
};

MakeGrammar grammars_of(GrammarShelf::MakeTokens make_tokens, std::vector<int32_t> end_tokens,
                        int64_t vocab) {
  // Where no token ends a text, one that does not exist stands for it: behind the last byte that
  // the grammar allows nothing can come, and the engine ends the answer there.
  if (end_tokens.empty()) end_tokens.push_back(static_cast<int32_t>(vocab));
  auto shelf = std::make_shared<GrammarShelf>(std::move(make_tokens), std::move(end_tokens));
  return [shelf](const nlohmann::ordered_json& schema) { return shelf->make(schema); };
}

Speech speech_of_folder(const fs::path& folder, const fs::path& chat_template, int64_t vocab) {
  Speech speech;
  speech.words = words_of_folder(folder, chat_template);
  const auto make_tokens = [folder] { return TokenBytes::of(Tokenizer::load(folder)); };
  speech.make_grammar = grammars_of(make_tokens, speech.words->end_tokens(), vocab);
  return speech;
}

}  // namespace

Speech speech_of(const ModelFolder& model, const fs::path& tokenizer,
                 const fs::path& chat_template) {
  const int64_t vocab = model.spec.model.vocab;
  if (!tokenizer.empty()) {
    require_config(
        fs::exists(tokenizer),
        "--tokenizer is '{}', which does not exist: name a folder with a tokenizer.json, "
        "or the file",
        tokenizer.string());
    const fs::path folder =
        fs::is_directory(tokenizer) ? tokenizer : fs::absolute(tokenizer).parent_path();
    Speech speech = speech_of_folder(folder, chat_template, vocab);
    require_config(speech.words->vocab() <= vocab,
                   "the tokenizer in '{}' has {} tokens, but the model knows {}: it is not the "
                   "model's; name the one that it was trained with",
                   folder.string(), speech.words->vocab(), vocab);
    return speech;
  }
  const std::string file = find_beside(model, "tokenizer.json");
  if (!file.empty()) return speech_of_folder(fs::path(file).parent_path(), chat_template, vocab);
  Speech speech;
  if (model.is_run && vocab == kBytes) {
    speech.words = words_of_bytes(chat_template);
    speech.make_grammar = grammars_of(TokenBytes::single_bytes, {}, vocab);
    return speech;
  }
  require_config(chat_template.empty(),
                 "'{}' has no tokenizer, so a chat template has nothing to be written in: name one "
                 "with --tokenizer",
                 model.path);
  speech.words = no_words(end_tokens_of(model.path));
  return speech;
}

}  // namespace tessera::serve
