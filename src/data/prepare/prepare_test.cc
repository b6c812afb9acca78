#include "data/prepare/prepare.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/testing/share.h"
#include "data/prepare/encode_unit.h"
#include "data/prepare/json_text.h"
#include "data/set/check_set.h"
#include "data/synth.h"
#include "data/tokenizer/encoder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const std::string kTokenizer = TESSERA_SOURCE_DIR "/tests/data/tokenizers/llama3";
constexpr int32_t kBegin = 0, kEnd = 1;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string packed_gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string packed_zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string json_line(const std::string& text) {
  return nlohmann::json{{"id", 7}, {"text", text}, {"meta", {{"text", "not this"}}}}.dump() + "\n";
}

class PrepareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(::testing::TempDir()) /
        (std::string("prepare_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "in");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / "in" / name, std::ios::binary) << text;
    return (folder_ / "in" / name).string();
  }
  PrepareOptions options(const std::string& out = "out") {
    PrepareOptions options;
    options.inputs = {(folder_ / "in").string()};
    options.tokenizer = kTokenizer;
    options.end_token = "<|end|>";
    options.out = (folder_ / out).string();
    options.threads = 2;
    return options;
  }
  static std::string refusal(const PrepareOptions& options) {
    try {
      (void)prepare(options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  // Texts of documents, without the tokens around them, which must be there.
  static std::vector<std::string> documents_of(const fs::path& path) {
    const TokenSet set = TokenSet::open(path);
    (void)check_set(set, 0);
    static const Tokenizer tokenizer = Tokenizer::load(kTokenizer);
    std::vector<int32_t> tokens(static_cast<size_t>(set.size()));
    set.copy(0, tokens);
    std::vector<std::string> texts;
    for (auto begin = tokens.begin(); begin != tokens.end();) {
      const auto end = std::find(begin, tokens.end(), kEnd);
      EXPECT_EQ(*begin, kBegin);
      EXPECT_NE(end, tokens.end());
      texts.push_back(tokenizer.decode(std::vector<int32_t>(begin + 1, end), false));
      begin = end + 1;
    }
    EXPECT_EQ(std::ssize(texts), set.documents());
    return texts;
  }
  // All files of a folder of sets but the tokenizer.
  static std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().lexically_relative(folder).string();
      if (entry.is_regular_file()) files[name] = bytes_of_file(entry.path());
    }
    return files;
  }
  // Several files of several kinds, a few units each.
  void write_corpus() {
    std::string lines;
    for (uint64_t i = 0; i < 200; ++i) lines += json_line(synth_stories(i + 1, 2000));
    write("a.jsonl", lines);
    write("b.jsonl.gz", packed_gzip(lines));
    write("c.txt", synth_stories(99, 1'500'000));
    write("d.txt.zst", packed_zstd(synth_stories(98, 300'000)));
  }

  fs::path folder_;
};

TEST_F(PrepareTest, EveryKindOfInputGivesItsDocuments) {
  write("1.txt", "one document");
  write("2.jsonl", json_line("first") + "\n" + json_line("") + json_line("second ü\n"));
  write("3.txt.gz", packed_gzip("packed") + packed_gzip(" twice"));
  write("4.jsonl.zst", packed_zstd(json_line("third")) + packed_zstd(json_line("fourth")));
  write("5.ndjson", "\xef\xbb\xbf" + json_line("after a mark").substr(0, 200));
  write(".hidden", "not this");
  const PrepareResult result = prepare(options());
  EXPECT_EQ(documents_of(folder_ / "out"),
            (std::vector<std::string>{"one document", "first", "second ü\n", "packed twice",
                                      "third", "fourth", "after a mark"}));
  EXPECT_EQ(result.num_empty, 1);
  EXPECT_EQ(result.num_inputs, 5);
  EXPECT_EQ(result.dtype, "u16");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "prepare.json"));
  EXPECT_TRUE(fs::exists(folder_ / "out" / "tokenizer.json"));
}

TEST_F(PrepareTest, SeparatorsKeysAndSpecialTokensAreTheUsers) {
  write("a.txt", "one<|x|>two<|x|><|x|>three<|x|>");
  PrepareOptions some = options();
  some.separator = "<|x|>";
  (void)prepare(some);
  EXPECT_EQ(documents_of(some.out), (std::vector<std::string>{"one", "two", "three"}));
  PrepareOptions plain = options("plain");
  plain.inputs = {write("b.json", "{\"body\": \"words\", \"text\": 3}")};
  plain.key = "body";
  plain.add_special = false;
  (void)prepare(plain);
  const TokenSet set = TokenSet::open(plain.out);
  std::vector<int32_t> tokens(static_cast<size_t>(set.size()));
  set.copy(0, tokens);
  EXPECT_NE(tokens.front(), kBegin);
  EXPECT_EQ(tokens.back(), kEnd);
}

TEST_F(PrepareTest, TheSameBytesForAnyNumberOfThreadsAndAnyInterruption) {
  write_corpus();
  PrepareOptions once = options("once");
  once.valid = 0.1;
  once.threads = 1;
  const PrepareResult result = prepare(once);
  EXPECT_GT(result.sets[1].documents, 20);
  EXPECT_LT(result.sets[1].documents, 120);
  const auto expected = contents(once.out);
  PrepareOptions threads = once;
  threads.out = (folder_ / "threads").string();
  threads.threads = 5;
  (void)prepare(threads);
  EXPECT_EQ(contents(threads.out), expected);
  // Stopped after every third unit, with bytes behind what was saved, by changing threads.
  PrepareOptions often = once;
  often.out = (folder_ / "often").string();
  int starts = 0;
  for (bool stopped = true; stopped; ++starts) {
    int units = 0;
    often.threads = 1 + starts % 3;
    often.should_stop = [&] { return ++units == 3; };
    const PrepareResult part = prepare(often);
    stopped = part.stopped;
    EXPECT_EQ(part.resumed, starts > 0);
    if (!stopped) continue;
    EXPECT_FALSE(fs::exists(fs::path(often.out) / "train/set.json"));
    std::ofstream(fs::path(often.out) / "train/tokens.bin", std::ios::app) << "lost";
  }
  EXPECT_GE(starts, 3);
  EXPECT_EQ(contents(often.out), expected);
}

TEST_F(PrepareTest, LargeDocumentsAreEncodedInPiecesAndStayOne) {
  std::string text = synth_stories(5, 1'500'000);
  write("a.txt", text);
  write("b.jsonl", json_line(text));
  write("c.txt", std::string(1'200'000, 'x'));  // not one line end
  (void)prepare(options());
  const std::vector<std::string> documents = documents_of(folder_ / "out");
  ASSERT_EQ(documents.size(), 3U);
  EXPECT_EQ(documents[0], text);
  EXPECT_EQ(documents[1], text);
  EXPECT_EQ(documents[2], std::string(1'200'000, 'x'));
}

// Small units, so that documents, separators and lines lie across their borders in every way.
TEST_F(PrepareTest, UnitsAreCutWhereDocumentsAre) {
  const UnitLimits small{.unit_bytes = 64, .line_bytes = 300, .piece_bytes = 64};
  std::mt19937 random(7);
  for (const std::string separator : {"\n\n", "aba", "|"}) {
    std::string text;
    while (text.size() < 20'000) {
      const size_t run = random() % 9;
      text += random() % 4 == 0   ? std::string(run, '\n')
              : random() % 3 == 0 ? std::string("abababab").substr(0, run)
                                  : std::string(random() % 90, 'x') + "|";
    }
    std::vector<std::string> expected;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(separator, at), text.size());
      if (end > at) expected.push_back(text.substr(at, end - at));
      at = end + separator.size();
    }
    PrepareOptions some = options();
    some.inputs = {write("a.txt", text)};
    some.separator = separator;
    some.limits = small;
    some.overwrite = true;
    (void)prepare(some);
    EXPECT_TRUE(documents_of(some.out) == expected) << separator;
  }
  std::string lines;
  std::vector<std::string> expected;
  int64_t num_long = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string text(1 + random() % 400, static_cast<char>('a' + i % 26));
    const std::string line = json_line(text);
    lines += i % 50 == 49 ? "\n" : "";
    lines += line;
    line.size() > small.line_bytes ? void(++num_long) : expected.push_back(text);
  }
  PrepareOptions some = options("lines");
  some.inputs = {write("b.jsonl", lines)};
  some.limits = small;
  some.skip_bad = 1000;
  some.extra_bytes = 0;  // every unit that needs more waits until all before it are written
  std::vector<std::string> notes;
  some.on_note = [&](const std::string& note) { notes.push_back(note); };
  for (const int64_t threads : {1, 7}) {
    some.threads = threads;
    some.overwrite = true;
    notes.clear();
    EXPECT_EQ(prepare(some).num_bad, num_long);
    EXPECT_TRUE(documents_of(some.out) == expected);
  }
  // Lines are counted over units, blank ones too.
  int64_t line = 0;
  std::vector<int64_t> longs;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at) + 1;
    ++line;
    if (end - at > small.line_bytes) longs.push_back(line);
    at = end;
  }
  ASSERT_EQ(notes.size(), longs.size());
  for (size_t i = 0; i < notes.size(); ++i) {
    EXPECT_NE(notes[i].find(fmt::format(".jsonl:{}: the line has more than 300", longs[i])),
              std::string::npos)
        << notes[i];
  }
}

TEST_F(PrepareTest, TheSplitDependsOnTheDocumentAndTheSeedAlone) {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 200; ++i) texts.push_back(synth_stories(i + 1, 100) + std::to_string(i));
  const auto split = [&](const std::string& out, int64_t seed) {
    std::string lines;
    for (const std::string& text : texts) lines += json_line(text);
    write("a.jsonl", lines);
    PrepareOptions some = options(out);
    some.valid = 0.2;
    some.seed = seed;
    (void)prepare(some);
    std::vector<std::string> valid = documents_of(fs::path(some.out) / "valid");
    EXPECT_EQ(valid.size() + documents_of(fs::path(some.out) / "train").size(), texts.size());
    std::ranges::sort(valid);
    return valid;
  };
  const std::vector<std::string> first = split("first", 1);
  EXPECT_GT(first.size(), 20U);
  EXPECT_LT(first.size(), 65U);
  std::ranges::reverse(texts);
  EXPECT_EQ(split("other order", 1), first);
  EXPECT_NE(split("other seed", 2), first);
}

TEST_F(PrepareTest, MegatronFilesHoldTheSameTokens) {
  write("a.jsonl", json_line("one") + json_line("two words"));
  PrepareOptions megatron = options("megatron");
  megatron.format = SetFormat::kMegatron;
  const PrepareResult result = prepare(megatron);
  EXPECT_EQ(result.sets[0].path, (folder_ / "megatron/train").string());
  EXPECT_EQ(documents_of(folder_ / "megatron/train"),
            (std::vector<std::string>{"one", "two words"}));
  EXPECT_NE(refusal(megatron).find("holds a set already"), std::string::npos);
}

TEST_F(PrepareTest, UnreadableLinesAreNamedOrLeftOut) {
  const std::string path =
      write("a.jsonl", json_line("good") + "{\"text\": \n" + json_line("better") + "[1]\n" +
                           "{\"text\": 5}\n{\"title\": \"x\"}\n");
  PrepareOptions some = options();
  EXPECT_EQ(refusal(some).substr(0, path.size() + 24), path + ":2: the line is no JSON ");
  some.skip_bad = 3;
  EXPECT_NE(refusal(some).find(":6: the line has no \"text\": name another with --key"),
            std::string::npos)
      << refusal(some);
  some.skip_bad = 4;
  std::vector<std::string> notes;
  some.on_note = [&](const std::string& text) { notes.push_back(text); };
  some.overwrite = true;
  EXPECT_EQ(prepare(some).num_bad, 4);
  ASSERT_EQ(notes.size(), 4U);
  EXPECT_NE(notes[1].find(":4: the line is a list, not an object"), std::string::npos) << notes[1];
  EXPECT_NE(notes[2].find(":5: the line has a number under \"text\""), std::string::npos);
  EXPECT_EQ(documents_of(some.out), (std::vector<std::string>{"good", "better"}));
}

TEST_F(PrepareTest, SaysWhyALineThatLooksRightIsNone) {
  const std::string begun =
      "begins a value that goes on in the next: write every object in one line";
  for (const auto& [text, why] :
       {std::pair<std::string, std::string>{"[\n  {\"text\": \"a\"}\n]\n", begun},
        {"\xef\xbb\xbf{\r\n  \"text\": \"a\"\r\n}\r\n", begun},
        {R"({"text": "cut \ud83d off"})", ": half of a surrogate pair)"},
        {"{\"text\": \"caf\xe9\"}", ": no UTF-8)"}}) {
    write("a.jsonl", text);
    PrepareOptions some = options();
    some.overwrite = true;
    EXPECT_NE(refusal(some).find(why), std::string::npos) << refusal(some);
  }
  // What Python's json takes, too: the last of several keys, pairs of surrogates, carriage returns.
  write("a.jsonl", R"({"text": "no", "text": "\ud83d\ude42"})"
                   "\r\n"
                   R"({"te\u0078t": "b"})"
                   "\r");
  PrepareOptions some = options();
  some.overwrite = true;
  (void)prepare(some);
  EXPECT_EQ(documents_of(some.out), (std::vector<std::string>{"\U0001F642", "b"}));
}

TEST_F(PrepareTest, ZerosBehindTheLastPartOfAGzipAreNothing) {
  write("a.txt.gz", packed_gzip("one") + packed_gzip(" two") + std::string(700, '\0'));
  (void)prepare(options());
  EXPECT_EQ(documents_of(folder_ / "out"), std::vector<std::string>{"one two"});
  write("a.txt.gz", packed_gzip("one") + std::string(700, '\0') + "no gzip");
  PrepareOptions some = options();
  some.overwrite = true;
  EXPECT_NE(refusal(some).find("its gzip is damaged"), std::string::npos) << refusal(some);
}

TEST_F(PrepareTest, SaysOfWhatIsHardlyTextThatItIsRead) {
  write("a.txt", "a text");
  write("b.bin", packed_gzip("packed") + std::string(1, '\0'));
  write("c.txt", std::string("\xff\xfeo\0n\0e\0", 8));
  PrepareOptions some = options();
  std::vector<std::string> notes;
  some.on_note = [&](const std::string& text) { notes.push_back(text); };
  (void)prepare(some);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("c.txt' begins with the mark of UTF-16"), std::string::npos) << notes[0];
}

TEST_F(PrepareTest, ALineOfMoreThan16MiBIsLeftOutOrNamed) {
  write("a.jsonl", json_line("before") + json_line(std::string(UnitLimits().line_bytes, 'y')) +
                       json_line("after"));
  PrepareOptions some = options();
  EXPECT_NE(refusal(some).find("a.jsonl:2: the line has more than 16,777,216 bytes"),
            std::string::npos);
  some.skip_bad = 1;
  some.overwrite = true;
  (void)prepare(some);
  EXPECT_EQ(documents_of(some.out), (std::vector<std::string>{"before", "after"}));
}

TEST_F(PrepareTest, DamagedPackedFilesAreNamed) {
  const std::string text = synth_stories(1, 100'000);
  for (const auto& [name, packed] :
       {std::pair{"a.txt.gz", packed_gzip(text)}, std::pair{"a.txt.zst", packed_zstd(text)}}) {
    PrepareOptions some = options("damaged");
    some.overwrite = true;
    some.inputs = {write(name, packed.substr(0, packed.size() / 2))};
    EXPECT_NE(refusal(some).find(std::string(name) + "': it is cut off"), std::string::npos)
        << refusal(some);
    std::string broken = packed;
    for (size_t i = 5; i < 60; ++i) broken[i] = static_cast<char>(~broken[i]);
    some.inputs = {write(name, broken)};
    EXPECT_NE(refusal(some).find(name), std::string::npos);
  }
}

TEST_F(PrepareTest, RefusesWhatItMustNotReplaceOrCannotContinue) {
  write_corpus();
  PrepareOptions some = options();
  some.should_stop = [] { return true; };
  EXPECT_TRUE(prepare(some).stopped);
  PrepareOptions other = some;
  other.seed = 5;
  EXPECT_NE(refusal(other).find("its seed was 1, not 5"), std::string::npos) << refusal(other);
  write("a.jsonl", json_line("changed"));
  EXPECT_NE(refusal(some).find("a.jsonl' was changed since"), std::string::npos) << refusal(some);
  write("z.txt", "more");
  some.overwrite = true;
  some.should_stop = nullptr;
  EXPECT_FALSE(prepare(some).resumed);
  some.overwrite = false;
  EXPECT_NE(refusal(some).find("holds a set already"), std::string::npos);
  some.inputs = {some.out};
  EXPECT_NE(refusal(some).find("lies in --out"), std::string::npos) << refusal(some);
}

TEST_F(PrepareTest, RefusesTextWithoutDocumentsAndTokenizersWithoutAnEnd) {
  write("empty.jsonl", "\n\n");
  EXPECT_NE(refusal(options()).find("no documents"), std::string::npos);
  PrepareOptions some = options();
  some.end_token = "";
  EXPECT_NE(refusal(some).find("name one with --end"), std::string::npos);
  some.end_token = "<|no such|>";
  EXPECT_NE(refusal(some).find("has no token '<|no such|>'"), std::string::npos);
  some.inputs = {(folder_ / "absent").string()};
  some.end_token = "<|end|>";
  EXPECT_NE(refusal(some).find("does not exist"), std::string::npos);
}

TEST(JsonTextTest, DamagedLinesAreRefusedNeverCrash) {
  const std::string whole = json_line("some \\ text \xf0\x9f\x98\x80 \" [1, 2, {}]");
  std::mt19937 random(3);
  std::string text;
  EXPECT_EQ(json_text(whole, "text", text), "");
  EXPECT_EQ(text, "some \\ text \xf0\x9f\x98\x80 \" [1, 2, {}]");
  for (int i = 0; i < (testing::tries_all() ? 300'000 : 3'000); ++i) {
    std::string damaged = whole;
    for (int n = 0; n < 3; ++n) damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)json_text(damaged, "text", text);
  }
  EXPECT_NE(json_text(std::string(100'000, '['), "text", text), "");
}

}  // namespace
}  // namespace tessera
