#include "serve/testing/walks.h"

#include <algorithm>
#include <utility>

#include "data/tokenizer/tokenizer.h"

namespace tessera::serve::testing {
namespace {

TestVocabulary vocabulary_of(std::string name, std::shared_ptr<const TokenBytes> tokens) {
  TestVocabulary made{std::move(name), std::move(tokens)};
  made.end = made.tokens->size();
  std::vector<bool> found(256);
  for (int32_t id = 0; id < made.end; ++id) {
    const std::string_view bytes = made.tokens->bytes_of(id);
    if (bytes.size() == 1) found[static_cast<uint8_t>(bytes[0])] = true;
  }
  // 0xC0, 0xC1 and 0xF5 and up are in no text.
  made.has_all_bytes = true;
  for (size_t i = 0; i < 0xF5; ++i) made.has_all_bytes &= found[i] || i == 0xC0 || i == 0xC1;
  return made;
}

std::shared_ptr<const TokenBytes> hostile_tokens() {
  std::vector<std::string> tokens(300);
  for (size_t i = 0; i < 256; ++i) tokens[i] = std::string(1, static_cast<char>(i));
  // Two ids that are written alike, an id without bytes, and long runs.
  for (const char* text : {"{\"",
                           "\":",
                           "\": ",
                           ", \"",
                           "\",\"",
                           "}}",
                           "}}}}",
                           "]]",
                           "]}",
                           "}]",
                           "[[[[",
                           "[{",
                           "{}",
                           "null",
                           "null}",
                           "true,",
                           "\\\"",
                           "\\u00",
                           "\\n",
                           "\xE5\x90",
                           "\x8D\xE5",
                           "\x89\x8D",
                           "\xF0\x9F\x98",
                           "\x80\"",
                           "\"\"",
                           "\", \"a\": ",
                           "a\"}",
                           "12",
                           "-1",
                           "0.",
                           "1e1",
                           "}\n",
                           "    ",
                           "aaaaaaaaaaaaaaaa",
                           "a",
                           "abc\":",
                           "\"a\":[",
                           ",,",
                           "},{",
                           "\"],\"",
                           "\xFF",
                           ""}) {
    tokens.emplace_back(text);
  }
  return std::make_shared<const TokenBytes>(std::move(tokens));
}

// A quote first: brackets inside a string close nothing.
int closing_rank(std::string_view bytes) {
  if (bytes == "\"") return 3;
  if (bytes.starts_with("]") || bytes.starts_with("}")) return 2;
  return bytes.find('"') != bytes.npos || bytes == "n" || bytes == ":" ? 1 : 0;
}

}  // namespace

const std::vector<TestVocabulary>& test_vocabularies(const std::string& source_dir) {
  static const std::vector<TestVocabulary> all = [&] {
    std::vector<TestVocabulary> made;
    made.push_back(vocabulary_of("bytes", TokenBytes::single_bytes()));
    made.push_back(vocabulary_of("hostile", hostile_tokens()));
    for (const std::string kind : {"gpt2", "llama3", "qwen2", "llama2", "metaspace", "unigram"}) {
      const Tokenizer tokenizer = Tokenizer::load(source_dir + "/tests/data/tokenizers/" + kind);
      made.push_back(vocabulary_of(kind, TokenBytes::of(tokenizer)));
    }
    return made;
  }();
  return all;
}

std::vector<int32_t> allowed_tokens(TokenGrammar& grammar, const TestVocabulary& vocabulary) {
  std::vector<uint32_t> bits(static_cast<size_t>(vocabulary.end) / 32 + 1, 0);
  grammar.allow(bits);
  std::vector<int32_t> allowed;
  for (int32_t id = 0; id <= vocabulary.end; ++id) {
    const auto at = static_cast<uint32_t>(id);
    if ((bits[at / 32] >> (at % 32) & 1U) != 0) allowed.push_back(id);
  }
  return allowed;
}

Walk random_walk(TokenGrammar& grammar, const TestVocabulary& vocabulary, Taste taste,
                 size_t patience, std::mt19937_64& random) {
  Walk walk;
  std::vector<int32_t> used(static_cast<size_t>(vocabulary.end), 0);
  const auto length = [&](int32_t id) { return vocabulary.tokens->bytes_of(id).size(); };
  for (size_t step = 0; step < patience + 400; ++step) {
    std::vector<int32_t> allowed = allowed_tokens(grammar, vocabulary);
    const bool may_end = allowed.back() == vocabulary.end;
    if (may_end) allowed.pop_back();
    const bool tired = step >= patience;
    if (allowed.empty() || (may_end && (tired || random() % 4 == 0))) {
      walk.ended = true;
      grammar.accept(vocabulary.end);
      return walk;
    }
    int32_t chosen = allowed[random() % allowed.size()];
    if (tired) {
      // Not always: a pattern may ask for something else before it ends.
      for (const int32_t id : random() % 8 == 0 ? std::vector<int32_t>() : allowed) {
        if (closing_rank(vocabulary.tokens->bytes_of(id)) >
            closing_rank(vocabulary.tokens->bytes_of(chosen))) {
          chosen = id;
        }
      }
    } else if (taste == Taste::kLongest) {
      for (const int32_t id : allowed) chosen = length(id) > length(chosen) ? id : chosen;
    } else if (taste == Taste::kRarest) {
      for (const int32_t id : allowed) {
        chosen = used[static_cast<size_t>(id)] < used[static_cast<size_t>(chosen)] ? id : chosen;
      }
    }
    ++used[static_cast<size_t>(chosen)];
    grammar.accept(chosen);
    walk.text += vocabulary.tokens->bytes_of(chosen);
    walk.tokens.push_back(chosen);
  }
  return walk;
}

bool accepts(TokenGrammar& grammar, const TestVocabulary& vocabulary,
             const std::vector<int32_t>& tokens) {
  const auto allows = [&](int32_t token) {
    const std::vector<int32_t> allowed = allowed_tokens(grammar, vocabulary);
    return std::binary_search(allowed.begin(), allowed.end(), token);
  };
  for (const int32_t token : tokens) {
    if (!allows(token)) return false;
    grammar.accept(token);
  }
  return allows(vocabulary.end);
}

std::vector<int32_t> random_tokens(const TestVocabulary& vocabulary, const std::string& text,
                                   std::mt19937_64& random) {
  // Backwards, so that only cuts are chosen from which there is a way to the end.
  std::vector<std::vector<int32_t>> ways(text.size() + 1);
  std::vector<bool> reaches(text.size() + 1, false);
  reaches[text.size()] = true;
  const auto nodes = vocabulary.tokens->nodes();
  for (size_t from = text.size(); from-- > 0;) {
    size_t depth = 0;
    for (uint32_t i = 0; i < nodes.size();) {
      const size_t at = from + nodes[i].depth - 1U;
      if (nodes[i].depth <= depth) break;
      if (at >= text.size() || nodes[i].byte != static_cast<uint8_t>(text[at])) {
        i = nodes[i].skip;
        continue;
      }
      depth = nodes[i].depth;
      if (reaches[from + depth]) {
        for (const int32_t id : vocabulary.tokens->tokens_at(i)) ways[from].push_back(id);
      }
      ++i;
    }
    reaches[from] = !ways[from].empty();
  }
  std::vector<int32_t> tokens;
  for (size_t at = 0; at < text.size() && reaches[at];) {
    tokens.push_back(ways[at][random() % ways[at].size()]);
    at += vocabulary.tokens->bytes_of(tokens.back()).size();
  }
  if (!reaches[0]) tokens.clear();
  return tokens;
}

}  // namespace tessera::serve::testing
