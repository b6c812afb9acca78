// Characters and stop strings, cut by tokens in every way.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/api/choice_text.h"
#include "serve/testing/api_server.h"

namespace tessera::serve {
namespace {

using testing::ApiServer;
using testing::ApiSetup;
using testing::bytes_as_tokens;
using testing::Json;
using testing::kChat;
using testing::kCompletions;
using testing::text_of_stream;

// Token i stands for the i-th of some pieces of text.
class PieceWords final : public Words {
 public:
  explicit PieceWords(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  [[nodiscard]] bool has_text() const override { return true; }
  [[nodiscard]] std::vector<int32_t> encode(std::string_view, bool) const override { return {0}; }
  [[nodiscard]] std::unique_ptr<TextDecoder> decoder() const override {
    return std::make_unique<Decoder>(*this);
  }
  [[nodiscard]] std::string text_of(int32_t token) const override { return bytes_of(token); }
  [[nodiscard]] std::string bytes_of(int32_t token) const override {
    return pieces_.at(static_cast<size_t>(token));
  }
  [[nodiscard]] int32_t special_token(std::string_view) const override { return -1; }
  [[nodiscard]] const std::vector<int32_t>& end_tokens() const override { return none_; }
  [[nodiscard]] int64_t vocab() const override { return std::ssize(pieces_); }
  [[nodiscard]] std::string render_chat(nlohmann::ordered_json) const override { return "x"; }
  [[nodiscard]] bool has_chat() const override { return true; }

 private:
  // Bytes as ByteWords decodes them, some at a time.
  class Decoder final : public TextDecoder {
   public:
    explicit Decoder(const PieceWords& words)
        : words_(words), bytes_words_(words_of_bytes()), bytes_(bytes_words_->decoder()) {}
    std::string push(int32_t token) override {
      std::string text;
      for (const char byte : words_.bytes_of(token))
        text += bytes_->push(static_cast<uint8_t>(byte));
      return text;
    }
    std::string finish() override { return bytes_->finish(); }

   private:
    const PieceWords& words_;
    std::shared_ptr<const Words> bytes_words_;
    std::unique_ptr<TextDecoder> bytes_;
  };
  std::vector<std::string> pieces_;
  std::vector<int32_t> none_;
};

// All ways to cut a text into pieces.
std::vector<std::vector<std::string>> all_cuts(const std::string& text) {
  std::vector<std::vector<std::string>> cuts;
  for (uint32_t borders = 0; borders < (1U << (text.size() - 1)); ++borders) {
    std::vector<std::string> pieces(1);
    for (size_t i = 0; i < text.size(); ++i) {
      pieces.back() += text[i];
      if (i + 1 < text.size() && ((borders >> i) & 1) != 0) pieces.emplace_back();
    }
    cuts.push_back(pieces);
  }
  return cuts;
}

struct Written {
  std::string text;
  bool stopped = false;
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets;
};

bool is_whole_utf8(std::string_view text) {
  Json json = std::string(text);
  try {
    (void)json.dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

Written write(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
  const PieceWords words(pieces);
  ChoiceText choice(words, stops, /*keep_tokens=*/true);
  Written written;
  const auto take = [&](const TextPart& part) {
    EXPECT_TRUE(is_whole_utf8(part.text));
    written.text += part.text;
    for (const SampledToken& token : part.tokens) written.tokens.push_back(token.token);
    written.offsets.insert(written.offsets.end(), part.offsets.begin(), part.offsets.end());
  };
  for (size_t i = 0; i < pieces.size() && !choice.stopped(); ++i) {
    SampledToken token;
    token.token = static_cast<int32_t>(i);
    take(choice.push(token));
    for (const std::string& stop : stops) {
      // What was said cannot be taken back.
      EXPECT_EQ(written.text.find(stop), std::string::npos);
    }
  }
  take(choice.finish());
  written.stopped = choice.stopped();
  return written;
}

TEST(ChoiceTextTest, CharactersComeWholeHoweverTokensCutThem) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";  // a é € 😀 z
  for (const auto& pieces : all_cuts(text)) {
    const Written written = write(pieces, {});
    ASSERT_EQ(written.text, text) << pieces.size();
    ASSERT_EQ(written.tokens.size(), pieces.size());
    for (size_t i = 1; i < written.offsets.size(); ++i) {
      ASSERT_LE(written.offsets[i - 1], written.offsets[i]);
    }
    ASSERT_LE(written.offsets.back(), 4);
  }
}

TEST(ChoiceTextTest, BytesThatAreNoCharacterBecomeReplacements) {
  EXPECT_EQ(write({"a\xFF", "b"}, {}).text,
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(write({"a\xE2\x82"}, {}).text, "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_TRUE(is_whole_utf8(write({"\xF0\x9F", "x"}, {}).text));
}

TEST(ChoiceTextTest, StopsAreFoundHoweverTokensCutThem) {
  struct Case {
    std::string text;
    std::vector<std::string> stops;
    std::string wanted;
    bool stopped;
  };
  const std::vector<Case> cases = {
      {"one\n\ntwo", {"\n\n"}, "one", true},
      {"aabaabaac", {"aabaac"}, "aab", true},
      {"aabaabaab", {"aabaac"}, "aabaabaab", false},
      {"xyENDz", {"END", "yE"}, "x", true},
      {"xyzENz", {"END"}, "xyzENz", false},
      {"price \xE2\x82\xAC", {"\xE2\x82\xAC"}, "price ", true},
      {"END", {"END"}, "", true},
      {"abababac", {"abac"}, "abab", true},
      {"hi EN", {"END", "NO"}, "hi EN", false},
  };
  for (const Case& one : cases) {
    for (const auto& pieces : all_cuts(one.text)) {
      const Written written = write(pieces, one.stops);
      ASSERT_EQ(written.text, one.wanted) << one.text << " in " << pieces.size();
      ASSERT_EQ(written.stopped, one.stopped) << one.text << " in " << pieces.size();
    }
  }
}

// A token comes with the first of its text, and not where a stop took all of it.
TEST(ChoiceTextTest, TokensOfAStopGoWithIt) {
  const Written written = write({"ab", "cE", "N", "D", "x"}, {"END"});
  EXPECT_EQ(written.text, "abc");
  EXPECT_EQ(written.tokens, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(written.offsets, (std::vector<int64_t>{0, 2}));
}

// Over HTTP, a byte at a time: streamed and whole answers say the same.
TEST(ApiTextTest, StreamsSayWhatWholeAnswersSay) {
  const std::string text = "caf\xC3\xA9 \xF0\x9F\x98\x80 STO STOP never";
  ApiSetup setup;
  setup.script.answer = [&](const GenerationRequest&, int) { return bytes_as_tokens(text); };
  ApiServer server(setup);
  const std::string wanted = text.substr(0, text.find(" STOP"));
  Json body = {{"prompt", "x"}, {"max_tokens", 200}, {"stop", " STOP"}};
  const Json whole = server.choice(kCompletions, body);
  EXPECT_EQ(whole["text"], wanted);
  EXPECT_EQ(whole["finish_reason"], "stop");
  body["stream"] = true;
  const std::string events = server.post(kCompletions, body.dump()).body;
  EXPECT_EQ(text_of_stream(events), wanted);
  for (const std::string& event : testing::events_of(events)) {
    EXPECT_TRUE(event == "[DONE]" || is_whole_utf8(event));
  }
  // What stopped it told the generator at once.
  EXPECT_TRUE(testing::holds_soon([&] { return server.generator().stats().pages_used == 0; }));
  Json chat = {
      {"messages", {{{"role", "user"}, {"content", "x"}}}}, {"stop", {" STOP"}}, {"stream", true}};
  EXPECT_EQ(text_of_stream(server.post(kChat, chat.dump()).body), wanted);
}

TEST(ApiTextTest, AStopOfOneChoiceLeavesTheOthersAlone) {
  ApiSetup setup;
  setup.script.answer = [&](const GenerationRequest&, int choice) {
    return bytes_as_tokens(choice == 0 ? "stop here" : "go on to the end");
  };
  ApiServer server(setup);
  const Json answer = server.answer(
      kCompletions, {{"prompt", "x"}, {"n", 3}, {"max_tokens", 100}, {"stop", "stop"}});
  ASSERT_TRUE(answer.contains("choices")) << answer;
  EXPECT_EQ(answer["choices"][0]["text"], "");
  EXPECT_EQ(answer["choices"][1]["text"], "go on to the end");
  EXPECT_EQ(answer["choices"][2]["text"], "go on to the end");
}

TEST(ApiTextTest, EventsOfSeveralChoicesNameTheirs) {
  ApiServer server;
  const std::string body =
      server
          .post(kChat, R"({"messages":[{"role":"user","content":"x"}],"n":3,"max_tokens":4,)"
                       R"("stream":true})")
          .body;
  EXPECT_EQ(text_of_stream(body, 0), "abcd");
  EXPECT_EQ(text_of_stream(body, 1), "bcde");
  EXPECT_EQ(text_of_stream(body, 2), "cdef");
  EXPECT_EQ(testing::events_of(body).back(), "[DONE]");
}

}  // namespace
}  // namespace tessera::serve
