#include "data/tokenizer/model/read_model.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text/printable.h"
#include "data/tokenizer/model/bpe.h"
#include "data/tokenizer/model/unigram.h"
#include "data/tokenizer/model/vocabulary.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// Files of older libraries have no type.
std::string type_of(const JsonPlace& place) {
  if (place.has("type")) return place.type();
  if (place.has("merges")) return "BPE";
  return place.at("vocab").value().is_array() ? "Unigram" : "WordLevel";
}

std::pair<std::string, std::string> read_merge(const Json& merge, const JsonPlace& place,
                                               size_t number) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (!merge.is_string()) place.fail(fmt::format("merge {} is no pair of texts", number + 1));
  const auto& text = merge.get_ref<const std::string&>();
  const size_t blank = text.find(' ');
  if (blank == text.npos || text.find(' ', blank + 1) != text.npos) {
    place.fail(fmt::format("merge {}, '{}': expected two tokens and one blank between them",
                           number + 1, shortened(text)));
  }
  return {text.substr(0, blank), text.substr(blank + 1)};
}

void refuse_text(const JsonPlace& place, std::string_view key) {
  if (place.has(key) && !place.at(key).text().empty()) {
    place.fail(fmt::format("{} '{}' is not supported", key, shortened(place.at(key).text())));
  }
}

void read_lists(const JsonPlace& place, ModelLists& lists) {
  const JsonPlace vocab = place.at("vocab");
  if (!vocab.value().is_object()) vocab.fail("expected an object of tokens and ids");
  lists.vocab.reserve(vocab.value().size());
  for (const auto& [token, id] : vocab.value().items()) {
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX;
    if (!fits) {
      vocab.fail(fmt::format("the id of '{}' is {}, not a whole number from 0 to {}",
                             shortened(token), shortened(id.dump()), kMostTokens - 1));
    }
    lists.vocab.emplace_back(token, id.get<int32_t>());
  }
  if (!place.has("merges")) {
    place.fail("'merges' is missing: a BPE is nothing without them; copy the file again");
  }
  const JsonPlace merges = place.at("merges");
  if (!merges.value().is_array()) merges.fail("expected a list");
  lists.merges.reserve(merges.value().size());
  for (const Json& merge : merges.value()) {
    const bool is_version =
        merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version");
    if (!is_version) lists.merges.push_back(read_merge(merge, merges, lists.merges.size()));
  }
}

std::unique_ptr<const TokenModel> read_bpe(const JsonPlace& place, bool raw_bytes,
                                           const ModelLists* lists) {
  refuse_text(place, "continuing_subword_prefix");
  refuse_text(place, "end_of_word_suffix");
  if (place.has("dropout") && place.at("dropout").value() != 0) {
    place.fail("dropout is not supported: the same text would not always be the same tokens");
  }
  ModelLists own;
  if (lists == nullptr) {
    read_lists(place, own);
    lists = &own;
  }
  BpeOptions options{.lists = *lists};
  if (place.has("unk_token")) options.unk_token = place.at("unk_token").text();
  options.fuse_unk = place.truth("fuse_unk", false);
  options.byte_fallback = place.truth("byte_fallback", false);
  options.ignore_merges = place.truth("ignore_merges", false);
  options.raw_bytes = raw_bytes;
  try {
    return make_bpe(options);
  } catch (const ConfigError& error) {
    place.fail(error.what());
  }
}

std::unique_ptr<const TokenModel> read_unigram(const JsonPlace& place) {
  UnigramOptions options;
  const JsonPlace vocab = place.at("vocab");
  if (!vocab.value().is_array()) vocab.fail("expected a list of tokens and scores");
  for (const Json& entry : vocab.value()) {
    const bool fits =
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!fits || !std::isfinite(entry[1].get<double>())) {
      vocab.fail(fmt::format("entry {} is no token with a score", options.vocab.size()));
    }
    options.vocab.emplace_back(entry[0].get<std::string>(), entry[1].get<double>());
  }
  if (place.has("unk_id")) options.unk_id = static_cast<int32_t>(place.at("unk_id").whole());
  options.byte_fallback = place.truth("byte_fallback", false);
  try {
    return make_unigram(options);
  } catch (const ConfigError& error) {
    place.fail(error.what());
  }
}

}  // namespace

bool model_takes_bytes(const JsonPlace& place) {
  return type_of(place) == "BPE" && !place.truth("byte_fallback", false);
}

std::unique_ptr<const TokenModel> read_model(const JsonPlace& place, bool raw_bytes,
                                             const ModelLists* lists) {
  const std::string type = type_of(place);
  if (type == "BPE") return read_bpe(place, raw_bytes, lists);
  if (type == "Unigram") return read_unigram(place);
  place.fail(fmt::format("model '{}' is not supported; known: BPE, Unigram", shortened(type)));
}

}  // namespace tessera
