// Every mesh against one rank, in float64, on every gradient and every updated weight; and against
// its own plan, in every number: memory, traffic and instructions of every rank.
//
//   equivalence_test                     one line of every pair of features, and a quarter of the
//                                        others
//   equivalence_test --all               every line (also with TESSERA_TEST_ALL=1, as ./test --all)
//   equivalence_test --seeds 0-199       random meshes; "some": a tenth of those 200
//   equivalence_test --line "dp=2 tp=2"  one line
//   equivalence_test --summary           how many lines it would run, and of how many
// --part K/N keeps every N-th line, from K on. --rotation R (else TESSERA_ROTATION, else 0) says
// which quarter, and which meshes: ./test counts commits, so that the same sources run the same
// lines on every machine and every day. --device cuda runs the meshes of up to 4 ranks as threads
// that share one GPU; the one rank stays on the CPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <optional>

#include "base/testing/share.h"
#include "support/case_selection.h"
#include "support/random_case.h"
#include "support/record.h"
#include "support/tiny.h"
#include "train/report/planned_measured.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

constexpr int64_t kRotations = 4;          // every line is run within as many commits
constexpr int64_t kSeedsPerRotation = 20;  // of --seeds some
constexpr int64_t kSeeds = 200;            // of --seeds some under --all

struct Options {
  bool all = testing::tries_all();
  int64_t rotation = testing::rotation();
  int64_t part = 0, parts = 1;
  std::optional<std::string> seeds, line;
  bool on_gpu = false;
  bool summary = false;
};

constexpr int64_t kMostRanksOnOneGpu = 4;

// "3-7" or "3/7".
std::pair<int64_t, int64_t> two_numbers(const std::string& text, char between) {
  const size_t at = text.find(between);
  require_config(at != std::string::npos, "'{}' is not two numbers with '{}' between them", text,
                 between);
  return {std::stoll(text.substr(0, at)), std::stoll(text.substr(at + 1))};
}

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&]() -> const std::string& {
      require_config(i + 1 < words.size(), "{} needs a value", word);
      return words[++i];
    };
    if (word == "--all") {
      options.all = true;
    } else if (word == "--summary") {
      options.summary = true;
    } else if (word == "--rotation") {
      options.rotation = std::stoll(value());
    } else if (word == "--part") {
      std::tie(options.part, options.parts) = two_numbers(value(), '/');
    } else if (word == "--seeds") {
      options.seeds = value();
    } else if (word == "--device") {
      options.on_gpu = value() == "cuda";
    } else if (word == "--line") {
      options.line = value();
    } else {
      throw ConfigError(
          fmt::format("unknown option '{}'; use --all, --seeds A-B|some, --line "
                      "TEXT, --part K/N, --rotation R, --summary, --device cpu|cuda",
                      word));
    }
  }
  return options;
}

std::vector<std::string> random_cases(const Options& options) {
  int64_t first = options.all ? 0 : options.rotation * kSeedsPerRotation % kSeeds;
  int64_t last = first + (options.all ? kSeeds : kSeedsPerRotation) - 1;
  if (options.seeds != "some") std::tie(first, last) = two_numbers(*options.seeds, '-');
  std::vector<std::string> lines;
  for (int64_t seed = first; seed <= last; ++seed) {
    lines.push_back(random_case(static_cast<uint64_t>(seed)));
  }
  return lines;
}

struct Line {
  std::string text;
  bool on_gpu = false;
  friend std::ostream& operator<<(std::ostream& out, const Line& line) { return out << line.text; }
};

std::vector<Line> as_lines(const std::vector<std::string>& texts) {
  std::vector<Line> lines;
  for (const std::string& text : texts) lines.push_back({text});
  return lines;
}

std::vector<Line> whole_files(const Options& options) {
  const std::vector<std::string> all =
      read_cases(std::string(TESSERA_SOURCE_DIR) + "/tests/equivalence");
  if (options.all) {
    std::cout << fmt::format("equivalence: all {} lines\n", all.size());
    return as_lines(all);
  }
  const int64_t rotation = options.rotation % kRotations;
  const Selection chosen = select_cases(all, rotation, kRotations);
  std::cout << fmt::format(
      "equivalence: {} lines with every pair of features, {} of the other {} (rotation {} of {})\n",
      chosen.cover.size(), chosen.others.size(), all.size() - chosen.cover.size(), rotation,
      kRotations);
  std::vector<Line> lines = as_lines(chosen.cover);
  for (const std::string& text : chosen.others) lines.push_back({text});
  return lines;
}

std::vector<Line> chosen_lines(const Options& options) {
  std::vector<Line> lines;
  if (options.line.has_value()) {
    lines.push_back({*options.line});
  } else if (options.seeds.has_value()) {
    lines = as_lines(random_cases(options));
  } else {
    lines = whole_files(options);
  }
  std::vector<Line> mine;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (static_cast<int64_t>(i) % options.parts != options.part) continue;
    lines[i].on_gpu = options.on_gpu;
    if (options.on_gpu && parse_case(lines[i].text).spec.parallel.world() > kMostRanksOnOneGpu) {
      continue;
    }
    mine.push_back(lines[i]);
  }
  return mine;
}

// gtest asks for the parameters by a function; main() fills them in before that.
std::vector<Line>& lines_to_run() {
  static std::vector<Line> lines;
  return lines;
}

class EquivalenceTest : public ::testing::TestWithParam<Line> {};

TEST_P(EquivalenceTest, MatchesOneRankAndItsPlan) {
  const std::string line = GetParam().text;
  SCOPED_TRACE("equivalence_test --line \"" + line + "\"");
  TinyCase c = parse_case(line);
  const SampleSource samples = random_samples(c.spec, c.mask);
  const std::vector<StepRecord> oracle = record(on_one_rank(c.spec), samples);
  ASSERT_GT(oracle[0].grad_norm, 1e-3) << "the oracle has no gradient to compare with";
  if (GetParam().on_gpu) c.spec.train.device = TrainDevice::kCuda;
  const MeasuredRun run = record_and_measure(short_run(c.spec, samples));
  expect_equal(run.steps, oracle, GetParam().on_gpu ? 1e-11 : 1e-12);
  ASSERT_EQ(run.measured["ranks"].size(), static_cast<size_t>(c.spec.parallel.world()));
  EXPECT_TRUE(plan_equals_measured(run.plan, run.measured))
      << planned_measured_table(run.plan, run.measured);
}

std::string test_name(const ::testing::TestParamInfo<Line>& info) {
  std::string name = fmt::format("{:03}_", info.index);
  for (const char c : info.param.text)
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Lines, EquivalenceTest, ::testing::ValuesIn(lines_to_run()), test_name);

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  std::vector<char*> for_gtest = {argv[0]};
  std::vector<std::string> mine;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--gtest", 0) == 0) {
      for_gtest.push_back(argv[i]);
    } else {
      mine.push_back(word);
    }
  }
  try {
    const tessera::Options options = tessera::parse_options(mine);
    tessera::lines_to_run() = tessera::chosen_lines(options);
    if (options.summary) return 0;
  } catch (const std::exception& error) {
    std::cerr << "equivalence_test: error: " << error.what() << "\n";
    return 2;
  }
  int count = static_cast<int>(for_gtest.size());
  ::testing::InitGoogleTest(&count, for_gtest.data());
  return RUN_ALL_TESTS();
}
