// The instructions that docs/program.md quotes are in the Programs of the examples.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "compile/step.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

std::vector<std::string> lines_of(std::istream&& text) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

bool is_instruction(const std::string& line) {
  static const std::regex kPattern("^ +[0-9]+ (compute|comm|data|pipe) .*");
  return std::regex_match(line, kPattern);
}

// Where the page shortens what stands in brackets, it is not compared.
std::string without_brackets(const std::string& line) {
  static const std::regex kBrackets("\\[[^\\]]*\\]");
  return std::regex_replace(line, kBrackets, "[...]");
}

std::string program_of(const std::string& example, int rank) {
  const std::string path = fmt::format("{}/examples/{}.toml", TESSERA_SOURCE_DIR, example);
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  RunSpec spec = parse_run_file(text.str(), path, {}, {});
  spec.train.threads = 1;
  resolve(spec);
  return to_text(lower(build_step(spec, StepKind::kTraining), rank));
}

TEST(ProgramPageTest, QuotesInstructionsThatExist) {
  std::set<std::string> whole, shortened;
  for (const std::string& program : {program_of("demo", 0), program_of("pipeline", 1)}) {
    for (const std::string& line : lines_of(std::istringstream(program))) {
      whole.insert(line);
      shortened.insert(without_brackets(line));
    }
  }
  int quoted = 0;
  for (const std::string& line :
       lines_of(std::ifstream(std::string(TESSERA_SOURCE_DIR) + "/docs/program.md"))) {
    if (!is_instruction(line)) continue;
    ++quoted;
    const bool is_short = line.find("[...]") != std::string::npos;
    EXPECT_TRUE(is_short ? shortened.contains(line) : whole.contains(line)) << line;
  }
  EXPECT_GT(quoted, 10);
}

}  // namespace
}  // namespace tessera
