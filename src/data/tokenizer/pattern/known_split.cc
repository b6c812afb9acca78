#include "data/tokenizer/pattern/known_split.h"

#include "data/tokenizer/pattern/splitter.h"

namespace tessera {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

std::string_view pattern_of(KnownSplit split) {
  switch (split) {
    case KnownSplit::kGpt2:
      return kGpt2;
    case KnownSplit::kLlama3:
      return kLlama3;
    case KnownSplit::kQwen2:
      return kQwen2;
  }
  return {};
}

std::optional<KnownSplit> known_split(std::string_view pattern) {
  for (const KnownSplit split : {KnownSplit::kGpt2, KnownSplit::kLlama3, KnownSplit::kQwen2}) {
    if (pattern == pattern_of(split)) return split;
  }
  return std::nullopt;
}

size_t end_of_piece(KnownSplit split, std::string_view text, size_t at, const uint8_t* table) {
  const Splitter splitter(text, table);
  switch (split) {
    case KnownSplit::kGpt2:
      return splitter.end_of_piece<KnownSplit::kGpt2>(at);
    case KnownSplit::kLlama3:
      return splitter.end_of_piece<KnownSplit::kLlama3>(at);
    case KnownSplit::kQwen2:
      return splitter.end_of_piece<KnownSplit::kQwen2>(at);
  }
  return text.size();
}

}  // namespace tessera
