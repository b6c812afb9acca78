// Small sets of tokens, and a folder with a tokenizer and conversations, for tests that train.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/philox.h"
#include "data/set/set_writer.h"

namespace tessera::testing {

inline constexpr int32_t kSetEnd = 0;  // ends every document

// Documents of one to seventeen random ids and an end.
inline std::string make_token_set(const std::string& place, uint64_t seed, int documents,
                                  int32_t vocab) {
  SetDescription facts;
  facts.vocab_size = vocab;
  facts.end_token = kSetEnd;
  SetWriter writer({SetFormat::kTessera, place}, facts);
  const auto draw = [&](int document, uint64_t at, int32_t below) {
    return static_cast<int32_t>(below * uniform_at(seed, static_cast<uint64_t>(document), at));
  };
  for (int d = 0; d < documents; ++d) {
    const int32_t length = 1 + draw(d, 0, 17);
    for (int32_t t = 1; t <= length; ++t) {
      const int32_t id = 1 + draw(d, static_cast<uint64_t>(t), vocab - 1);
      writer.append({&id, 1});
    }
    writer.append({&kSetEnd, 1});
    writer.end_document();
  }
  writer.finish();
  return place;
}

// A tokenizer of 512 ids, a chat template, and chats.jsonl with conversations of several lengths.
inline void make_chat_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string data = std::string(TESSERA_SOURCE_DIR) + "/tests/data/";
  fs::create_directories(folder);
  fs::copy(data + "tokenizers/gpt2/tokenizer.json", folder + "/tokenizer.json");
  fs::copy(data + "templates/chatml.jinja", folder + "/chat_template.jinja");
  std::ofstream out(folder + "/chats.jsonl", std::ios::binary);
  std::string question, answer;
  for (int i = 0; i < 9; ++i) {
    question = "q" + std::string(static_cast<size_t>(1 + i * 5 % 7), static_cast<char>('a' + i));
    answer = std::string(static_cast<size_t>(1 + i * 3 % 5), static_cast<char>('A' + i));
    out << R"({"messages": [{"role": "user", "content": ")" << question
        << R"("}, {"role": "assistant", "content": ")" << answer << "\"}";
    if (i % 3 == 0) {
      out << R"(, {"role": "user", "content": "?"}, {"role": "assistant", "content": ")" << question
          << "\"}";
    }
    out << "]}\n";
  }
}

}  // namespace tessera::testing
