// Ten thousand random requests: none crashes, none prints NaN or an infinity, all end with a
// documented exit code, and a second time they give the same bytes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cli.h"
#include "cost/testing/random_requests.h"

namespace tessera {
namespace {

using testing::Dice;

constexpr const char* kRunFile = R"(
[model]
layers = 2
hidden = 32
ffn = 48
heads = 4
vocab = 64

[train]
seq_len = 16
)";

class Requests {
 public:
  explicit Requests(uint64_t seed, std::string run_file)
      : dice_(seed), run_file_(std::move(run_file)) {}

  std::vector<std::string> next() {
    const int64_t kind = dice_.below(40);
    if (kind == 0) return {"presets", "--json"};
    if (kind == 1 && dice_.one_in(2)) return {"presets", dice_.one_in(2) ? "devices" : "clusters"};
    if (kind == 1) return {"explain", "rnig"};
    if (kind == 2) return {"bench", "formula", "zero", "--json"};
    if (kind > 6) return testing::random_explain(dice_);
    std::vector<std::string> words = {dice_.one_in(2) ? "plan" : "simulate", run_file_};
    if (words.front() == "simulate" && dice_.one_in(2)) words.emplace_back("--schedule");
    for (std::string& word : testing::random_overrides(dice_)) words.push_back(std::move(word));
    if (dice_.one_in(2)) words.emplace_back("--json");
    if (words.front() == "plan" && dice_.one_in(3)) words.emplace_back("--check");
    return words;
  }

 private:
  Dice dice_;
  std::string run_file_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

// As a word of its own: "information" has one inside.
bool has_word(const std::string& text, const std::string& word) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_letter(text[at - 1]);
    const size_t end = at + word.size();
    if (begins && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

struct Answers {
  std::string bytes;  // what was printed, all of it
  std::map<int, int> codes;
};

Answers answer(uint64_t seed, int count, const std::string& run_file) {
  Requests requests(seed, run_file);
  Answers answers;
  for (int i = 0; i < count; ++i) {
    const std::vector<std::string> words = requests.next();
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    const int code = run_cli(words, console);
    ++answers.codes[code];
    EXPECT_TRUE(code == 0 || code == 2 || code == 3) << code << joined(words) << "\n" << err.str();
    EXPECT_EQ(err.str().find("bug in Tessera"), std::string::npos) << joined(words) << err.str();
    EXPECT_EQ(code == 0, err.str().empty()) << joined(words) << "\n" << err.str();
    for (const std::string word : {"nan", "-nan", "inf", "-inf", "NaN", "Infinity", "null"}) {
      EXPECT_FALSE(has_word(out.str(), word)) << joined(words) << "\n" << out.str();
    }
    answers.bytes += out.str();
    answers.bytes += err.str();
  }
  return answers;
}

TEST(RobustnessTest, TenThousandRequestsAreAnsweredOrRefused) {
  std::string folder =
      (std::filesystem::temp_directory_path() / "tessera-requests-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string run_file = folder + "/run.toml";
  std::ofstream(run_file) << kRunFile;
  const Answers first = answer(20, 10'000, run_file);
  const Answers again = answer(20, 1'000, run_file);
  EXPECT_EQ(first.bytes.compare(0, again.bytes.size(), again.bytes), 0) << "another answer";
  EXPECT_GE(first.codes.at(0), 2000) << "most requests should make sense";
  EXPECT_GE(first.codes.at(2), 2000) << "and many should not";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera
