#include "train/samples/run_sets.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "tokenizer.json", error);
}

std::shared_ptr<const TokenSet> open_set(const std::string& path, const std::string& key,
                                         const RunSpec& spec) {
  try {
    auto set = std::make_shared<const TokenSet>(TokenSet::open(path));
    require_set_samples(*set, spec.train.seq_len);
    require_config(set->vocab_size() <= spec.model.vocab,
                   "'{}' has a vocabulary of {} tokens, but model.vocab is {}: use model.vocab = "
                   "{} or more, or a set of the model's tokenizer",
                   path, set->vocab_size(), spec.model.vocab, set->vocab_size());
    return set;
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", key, error.what()));
  }
}

// At places all over the set, as many as are read in a moment.
void look_at_ids(const TokenSet& set, int64_t vocab) {
  constexpr int64_t kPlaces = 64;
  constexpr int64_t kTokens = 4096;
  std::vector<int32_t> some;
  for (int64_t i = 0; i < kPlaces; ++i) {
    const int64_t first = set.size() / kPlaces * i;
    some.resize(static_cast<size_t>(std::min(kTokens, set.size() - first)));
    set.copy(first, some, vocab);
  }
}

struct KnownTokenizer {
  std::string fingerprint;
  std::string of;  // for people
};

// The one that a run says it uses; none: whatever the sets were made with.
KnownTokenizer named_tokenizer(const RunSpec& spec) {
  const bool named = !spec.data.tokenizer.empty();
  const std::string& folder = named ? spec.data.tokenizer : spec.model.hf;
  if (folder.empty() || (!named && !has_tokenizer(folder))) return {};
  return {Tokenizer::load(folder).fingerprint(),
          fmt::format("{} = \"{}\"", named ? "data.tokenizer" : "model.hf", folder)};
}

void check_tokenizers(const RunSpec& spec, const std::vector<WeightedSet>& sets) {
  KnownTokenizer known = named_tokenizer(spec);
  for (const WeightedSet& one : sets) {
    const std::string& tokenizer = one.set->tokenizer();
    if (tokenizer.empty()) continue;  // Megatron's files do not say it
    if (known.fingerprint.empty()) known = {tokenizer, fmt::format("'{}'", one.set->name())};
    require_config(tokenizer == known.fingerprint,
                   "data '{}' was made with another tokenizer (fingerprint {}) than that of {} "
                   "({}): prepare it again with --tokenizer, or name the tokenizer of all sets as "
                   "data.tokenizer",
                   one.set->name(), tokenizer, known.of, known.fingerprint);
  }
}

}  // namespace

std::vector<WeightedSet> training_sets(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  std::vector<WeightedSet> sets;
  if (!data.train.empty()) sets.push_back({open_set(data.train, "data.train", spec), 1});
  for (const DataPart& part : data.mix) {
    sets.push_back({open_set(part.path, "data.mix", spec), part.weight});
  }
  return sets;
}

std::shared_ptr<const TokenSet> validation_set(const RunSpec& spec, const std::string& path) {
  return open_set(path, "data.valid", spec);
}

int64_t end_token_of(const std::vector<WeightedSet>& sets) {
  if (sets.empty()) return -1;
  const int64_t first = sets.front().set->end_token();
  const bool same = std::all_of(sets.begin(), sets.end(), [&](const WeightedSet& one) {
    return one.set->end_token() == first;
  });
  return same ? first : -1;
}

RunSpec with_end_token(RunSpec spec) {
  if (!spec.data.document_mask || spec.data.end_token >= 0) return spec;
  if (!spec.data.chats.empty()) return spec;
  spec.data.end_token = end_token_of(training_sets(spec));
  require_config(spec.data.end_token >= 0,
                 "data.document_mask: the sets do not say, or not the same, which token ends a "
                 "document; give data.end_token");
  return spec;
}

std::string tokenizer_folder_of(const RunSpec& spec, const std::vector<WeightedSet>& sets) {
  if (sets.empty()) return "";
  if (!spec.data.tokenizer.empty()) {
    const fs::path named = spec.data.tokenizer;
    std::error_code error;
    return fs::is_directory(named, error) ? named.string() : named.parent_path().string();
  }
  if (!spec.model.hf.empty() && has_tokenizer(spec.model.hf)) return spec.model.hf;
  for (const WeightedSet& one : sets) {
    if (has_tokenizer(one.set->tokenizer_folder())) return one.set->tokenizer_folder().string();
  }
  return "";
}

void check_sets(const RunSpec& spec) {
  if (!spec.data.is_sets()) return;
  std::vector<WeightedSet> sets = training_sets(spec);
  const int64_t end_token = with_end_token(spec).data.end_token;
  for (const ValidSet& valid : spec.data.valid) {
    sets.push_back({validation_set(spec, valid.path), 1});
    const int64_t own = sets.back().set->end_token();
    require_config(!spec.data.document_mask || own < 0 || own == end_token,
                   "data.valid: documents of '{}' end with token {}, but data.document_mask looks "
                   "for {}: prepare it with the end of the training data",
                   valid.path, own, end_token);
  }
  check_tokenizers(spec, sets);
  for (const WeightedSet& one : sets) {
    if (one.set->vocab_size() == 0) look_at_ids(*one.set, spec.model.vocab);
  }
}

}  // namespace tessera
