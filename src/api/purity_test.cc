// What is planned here must be the same on every platform: no clock, no file, no thread but those
// of a search, and no function whose last bit differs between libraries.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 13> kPureFolders = {
    "base", "spec",   "graph", "collective", "compile",     "cost",      "plan",
    "sim",  "search", "draw",  "api",        "serve/batch", "serve/plan"};

struct Rule {
  const char* what;
  // One of these stands in every line that the pattern finds: most lines need no regex, which is
  // slow.
  std::vector<std::string> words;
  std::regex pattern;
  std::set<std::string> exceptions;  // files
};

const std::array<Rule, 4>& rules() {
  static const std::array<Rule, 4> kRules = {
      Rule{
          "a function that libraries round differently",
          {"exp(", "exp2(", "expm1(", "log(", "log2(", "log10(", "log1p(", "pow(", "cbrt(", "h(",
           "sin(", "cos(", "tan(", "atan2(", "erf(", "f("},
          std::regex(
              R"((^|[^\w.>:]|std::)(exp|exp2|expm1|log|log2|log10|log1p|pow|cbrt|tanh|sinh|cosh|sin|cos|tan|atan2?|erf)f?\()"),
          // Initial weights and AdamW: of training alone, no plan shows them.
          {"base/philox.cc", "base/step_params.h"}},
      Rule{
          "a clock",
          {"<chrono>", "<ctime>", "<time.h>", "_clock::", "clock(", "time("},
          std::regex(R"(<chrono>|<ctime>|<time\.h>|_clock::|\bclock\(|\btime\((NULL|nullptr|0)\))"),
          // They are told a time, or how long, and ask no clock.
          {"serve/batch/batch_options.h", "serve/batch/scheduler.h", "serve/plan/serve_options.h"}},
      Rule{"a thread",
           {"<thread>", "<mutex>", "<atomic>", "<future>", "<condition_variable>"},
           std::regex(R"(<thread>|<mutex>|<atomic>|<future>|<condition_variable>)"),
           {"search/in_parallel.cc"}},
      Rule{"a file",
           {"<fstream>", "<filesystem>", "<cstdio>", "<stdio.h>", "<unistd.h>", "fopen("},
           std::regex(R"(<fstream>|<filesystem>|<cstdio>|<stdio\.h>|<unistd\.h>|\bfopen\()"),
           {}},
  };
  return kRules;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// Tests, their support and what is compiled for a GPU alone may do as they like.
bool is_source(const fs::path& path) {
  const std::string name = path.string();
  const bool is_cpp = name.ends_with(".h") || name.ends_with(".cc");
  return is_cpp && !name.ends_with("_test.cc") && name.find("/testing/") == std::string::npos;
}

// Without comments and texts in quotes.
std::string code_of(const std::string& line) {
  std::string code;
  bool quoted = false;
  for (const char c : line.substr(0, line.find("//"))) {
    if (c == '"') quoted = !quoted;
    if (c != '"' && !quoted) code += c;
  }
  return code;
}

// The lines with what a rule forbids, which is a call, a header or a name in a class.
std::vector<std::string> findings(const std::string& text, const Rule& rule) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string code = code_of(line);
    if (code.find_first_of("(<:") == std::string::npos) continue;
    const bool may = std::any_of(rule.words.begin(), rule.words.end(), [&](const auto& word) {
      return code.find(word) != std::string::npos;
    });
    if (may && std::regex_search(code, rule.pattern)) found.push_back(line);
  }
  return found;
}

TEST(PurityTest, PureFoldersHaveNothingOfTheirPlatform) {
  const fs::path src = fs::path(TESSERA_SOURCE_DIR) / "src";
  size_t files = 0;
  for (const char* folder : kPureFolders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(src / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      ++files;
      const std::string name = fs::relative(entry.path(), src).string();
      const std::string text = text_of(entry.path());
      for (const Rule& rule : rules()) {
        if (rule.exceptions.contains(name)) continue;
        for (const std::string& line : findings(text, rule)) {
          ADD_FAILURE() << name << " has " << rule.what << ": " << line;
        }
      }
    }
  }
  EXPECT_GT(files, 200U) << "are these the sources?";
}

TEST(PurityTest, ExceptionsAreNeeded) {
  const fs::path src = fs::path(TESSERA_SOURCE_DIR) / "src";
  for (const Rule& rule : rules()) {
    for (const std::string& name : rule.exceptions) {
      EXPECT_FALSE(findings(text_of(src / name), rule).empty()) << name;
    }
  }
}

TEST(PurityTest, OnlyOneHeaderReadsToml) {
  const fs::path src = fs::path(TESSERA_SOURCE_DIR) / "src";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(src)) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    const std::string name = fs::relative(entry.path(), src).string();
    const bool reads = text_of(entry.path()).find("<toml++/") != std::string::npos;
    EXPECT_EQ(reads, name == "base/text/toml.h") << name;
  }
}

TEST(PurityTest, RulesFindWhatTheyForbid) {
  const auto finds = [](size_t rule, const std::string& line) {
    return !findings(line, rules()[rule]).empty();
  };
  EXPECT_TRUE(finds(0, "const double x = std::log2(y);"));
  EXPECT_TRUE(finds(0, "return pow(a, b);"));
  EXPECT_TRUE(finds(0, "return 2 * expf(a);"));
  EXPECT_FALSE(finds(0, "explain(\"log2(N), rounded up\");"));
  EXPECT_FALSE(finds(0, "return sqrt(a) + catalog(b) + report.log(c);  // log(x)"));
  EXPECT_TRUE(finds(1, "const auto now = std::chrono::steady_clock::now();"));
  EXPECT_TRUE(finds(2, "#include <thread>"));
  EXPECT_TRUE(finds(3, "#include <fstream>"));
  EXPECT_FALSE(finds(3, "#include <sstream>"));
}

}  // namespace
}  // namespace tessera
