#include "data/tokenizer/tokenizer_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "data/tokenizer/common/byte_alphabet.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json pre_tokenizer(KnownSplit split) {
  if (split == KnownSplit::kGpt2) return byte_level(true);
  const Json by_pattern = {{"type", "Split"},
                           {"pattern", {{"Regex", pattern_of(split)}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({by_pattern, byte_level(false)})}};
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  require(file.good(), "cannot write '{}': {}", path.string(), std::strerror(errno));
}

}  // namespace

std::string tokenizer_json(const TrainedBpe& trained, KnownSplit split) {
  const auto written = [&](int32_t id) {
    const auto place = static_cast<size_t>(id);
    const std::string& bytes = trained.tokens[place];
    return place < trained.num_special ? bytes : in_byte_alphabet(bytes);
  };
  Json added = Json::array();
  for (size_t i = 0; i < trained.num_special; ++i) {
    added.push_back({{"id", i},
                     {"content", trained.tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  Json vocab = Json::object();
  auto& entries = vocab.get_ref<Json::object_t&>();
  entries.reserve(trained.tokens.size());
  for (size_t i = 0; i < trained.tokens.size(); ++i) {
    // Every one is new: no search for it.
    entries.emplace_back(written(static_cast<int32_t>(i)), i);
  }
  Json merges = Json::array();
  for (const auto& [left, right] : trained.merges) {
    merges.push_back(written(left) + " " + written(right));
  }
  const Json document = {{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", std::move(added)},
                         {"normalizer", nullptr},
                         {"pre_tokenizer", pre_tokenizer(split)},
                         {"post_processor", nullptr},
                         {"decoder", byte_level(true)},
                         {"model",
                          {{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", nullptr},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", false},
                           {"byte_fallback", false},
                           {"ignore_merges", false},
                           {"vocab", std::move(vocab)},
                           {"merges", std::move(merges)}}}};
  return document.dump(1) + "\n";
}

void write_tokenizer(const fs::path& folder, const TrainedBpe& trained, KnownSplit split) {
  const fs::path file = folder / "tokenizer.json";
  std::error_code error;
  require_config(!fs::exists(file, error),
                 "'{}' is there already: name another folder, or remove it", file.string());
  fs::create_directories(folder, error);
  require_config(!error, "cannot make folder '{}': {}; choose another place", folder.string(),
                 error.message());
  write(file, tokenizer_json(trained, split));
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (trained.num_special > 0) config["eos_token"] = trained.tokens.front();
  write(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace tessera
