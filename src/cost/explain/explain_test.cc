// Calculators: units, mistakes, what is printed.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "cost/explain/topic.h"

namespace tessera {
namespace {

using testing::message_of;

std::string failure_of(const std::string& topic, const GivenTexts& given) {
  return message_of([&] { explain(find_topic(topic), given); });
}

TEST(QuantityTest, ReadsUnits) {
  const auto read = [](Unit unit, const char* text) { return parse_quantity(unit, text, "--x"); };
  EXPECT_EQ(read(Unit::kCount, "70B"), 70e9);
  EXPECT_EQ(read(Unit::kCount, "1.5T"), 1.5e12);
  EXPECT_EQ(read(Unit::kCount, "24576"), 24576);
  EXPECT_EQ(read(Unit::kBytes, "25MiB"), 25 * 1048576.0);
  EXPECT_EQ(read(Unit::kBytes, "80 GB"), 80e9);
  EXPECT_EQ(read(Unit::kBytesPerSecond, "25GB/s"), 25e9);
  EXPECT_EQ(read(Unit::kBytesPerSecond, "400Gb/s"), 50e9) << "bits";
  EXPECT_DOUBLE_EQ(read(Unit::kSeconds, "10us"), 10e-6);
  EXPECT_EQ(read(Unit::kFlopsPerSecond, "989TFLOP/s"), 989e12);
  EXPECT_EQ(read(Unit::kShare, "40%"), 0.4);
  EXPECT_EQ(read(Unit::kShare, "0.4"), 0.4);
}

TEST(QuantityTest, ShowsFourDigits) {
  const auto show = [](double value, Unit unit) { return text_of(Quantity{value, unit}); };
  EXPECT_EQ(show(1.12e12, Unit::kBytes), "1.12 TB");
  EXPECT_EQ(show(160e9, Unit::kBytes), "160 GB");
  EXPECT_EQ(show(0, Unit::kBytes), "0 B");
  EXPECT_EQ(show(10.85, Unit::kSeconds), "10.85 s");
  EXPECT_EQ(show(5.1e-5, Unit::kSeconds), "51 us");
  EXPECT_EQ(show(0, Unit::kSeconds), "0 s");
  EXPECT_EQ(show(17.4 * 86400, Unit::kSeconds), "17.4 days");
  EXPECT_EQ(show(0.42857, Unit::kShare), "42.86 %");
  EXPECT_EQ(show(24576, Unit::kNumber), "24,576");
  EXPECT_EQ(show(70e9, Unit::kCount), "70B");
  EXPECT_EQ(show(25e9, Unit::kBytesPerSecond), "25 GB/s");
  EXPECT_EQ(show(989e12, Unit::kFlopsPerSecond), "989 TFLOP/s");
}

TEST(ExplainTest, ShowsFormulaNumbersAndResult) {
  const std::string text = text_of(
      explain(find_topic("ring"), {{"bytes", "140GB"}, {"ranks", "32"}, {"bandwidth", "25GB/s"}}));
  EXPECT_NE(text.find("2 (N-1)/N X = 2 * 31/32 * 140 GB = 271.2 GB"), std::string::npos) << text;
  EXPECT_NE(text.find("= 10.85 s"), std::string::npos) << text;
  EXPECT_NE(text.find("bandwidth  B  25 GB/s"), std::string::npos) << text;
}

TEST(ExplainTest, PutsNumbersIntoFormulas) {
  const std::vector<GivenValue> given = {
      {"bytes", "X", "140 GB", 140e9}, {"ranks", "N", "32", 32}, {"hidden", "h", "4,096", 4096}};
  EXPECT_EQ(with_numbers("2 (N-1)/N X", given), "2 * (32-1)/32 * 140 GB");
  EXPECT_EQ(with_numbers("24 h^2 + 4 N h", given), "24 * 4,096^2 + 4 * 32 * 4,096");
  EXPECT_EQ(with_numbers("log2(N) mod h", given), "log2(32) mod 4,096");
  EXPECT_EQ(with_numbers("N over X", given), "") << "not a formula of symbols alone";
  EXPECT_EQ(with_numbers("log2(N), rounded up", given), "");
}

TEST(ExplainTest, TakesNumbersFromAModelUnlessTheyAreGiven) {
  const auto params = [](const GivenTexts& given) {
    return explain(find_topic("memory"), given).value("weights") / 2;
  };
  EXPECT_EQ(params({{"model", "llama-3-405b"}}), 405853388800.0);
  EXPECT_EQ(params({{"model", "llama-3-405b"}, {"params", "7B"}}), 7e9);
  const Explanation tp = explain(find_topic("tp"), {{"model", "llama-3-405b"}});
  EXPECT_EQ(tp.value("calls"), 4 * 126);
  const Explanation flops = explain(find_topic("flops"), {{"model", "deepseek-v3"}});
  EXPECT_LT(flops.value("flops"), 6 * 40e9 * 15e12) << "of the parameters that a token meets";
}

TEST(ExplainTest, TakesNumbersFromADevice) {
  const Explanation roofline = explain(find_topic("roofline"), {{"device", "h100"}});
  EXPECT_NEAR(roofline.value("ridge"), 295, 1);
  const auto largest = [](const GivenTexts& given) {
    return explain(find_topic("memory"), given).value("largest");
  };
  EXPECT_GT(largest({{"device", "h200"}}), largest({{"device", "h100"}}));
  EXPECT_EQ(largest({{"device", "h200"}, {"memory", "80GB"}}), 5e9);
  EXPECT_NE(failure_of("memory", {{"device", "h10"}}).find("did you mean"), std::string::npos);
}

TEST(ExplainTest, MistakesNameFlagValueAndFix) {
  EXPECT_EQ(failure_of("ring", {{"bytes", "many"}}),
            "--bytes is \"many\": expected bytes, such as 80GB or 25MiB");
  EXPECT_EQ(failure_of("ring", {{"ranks", "0"}}),
            "--ranks is \"0\": expected at least 1 and at most 1e+12");
  EXPECT_EQ(failure_of("ring", {{"ranks", "-3"}}),
            "--ranks is \"-3\": expected at least 1 and at most 1e+12");
  EXPECT_EQ(failure_of("ring", {{"ranks", "1e18"}}),
            "--ranks is \"1e18\": expected at least 1 and at most 1e+12");
  EXPECT_EQ(failure_of("ring", {{"ranks", "2.5"}}), "--ranks is \"2.5\": expected a whole number");
  EXPECT_EQ(failure_of("ring", {{"bandwidth", "400Gb"}}),
            "--bandwidth is \"400Gb\": expected a bandwidth, such as 25GB/s, or 400Gbps for bits");
  EXPECT_EQ(failure_of("flops", {{"mfu", "140%"}}), "--mfu is \"140%\": a share is at most 100%");
  EXPECT_EQ(failure_of("tp", {{"heads", "12"}, {"tp", "8"}}),
            "--tp is 8: it must divide the 12 heads");
  EXPECT_EQ(failure_of("bubble", {{"schedule", "1f1"}}),
            "--schedule is \"1f1\": did you mean '1f1b'?");
  EXPECT_NE(failure_of("memory", {{"model", "lama-3-8b"}}).find("did you mean 'llama-3-8b'?"),
            std::string::npos);
  EXPECT_EQ(message_of([] { find_topic("rings"); }), "no topic \"rings\"; did you mean 'ring'?");
  EXPECT_EQ(failure_of("scaling",
                       {{"years", "100"}, {"device-period", "0.1"}, {"device-growth", "1000"}}),
            "devices grow is too large to count; use smaller numbers");
  EXPECT_EQ(failure_of("grid", {{"tp", "7"}}),
            "tp * cp * pp = 112 does not divide --devices 24576; give --dp, or another number");
}

TEST(ExplainTest, ModelsOfOnesOwnAreChecked) {
  const auto failure_with = [](const std::string& text) {
    return message_of([&] {
      explain(find_topic("memory"), {{"model", "m.toml"}},
              [&](const std::string&) { return text; });
    });
  };
  EXPECT_EQ(failure_with("extends = \"gpt2\"\n"), "no error");
  EXPECT_NE(failure_with("extends = \"llama-3-8b\"\n[model]\nheads = 7\n").find("heads = 7"),
            std::string::npos);
  EXPECT_NE(failure_with("extends = \"llama-3-8b\"\n[model]\nhidden = 1000000000000\nhead_dim = "
                         "1000000000000\n")
                .find("too large to count"),
            std::string::npos);
}

// Numbers in the place of symbols must give the result that is printed.
TEST(ExplainTest, FormulasHaveTheNumbersOfTheirSymbols) {
  const std::string zero = text_of(explain(find_topic("zero"), {}));
  EXPECT_NE(zero.find("(w + g + (c+o)/N) P = 5.5 * 7B = 38.5 GB"), std::string::npos) << zero;
  EXPECT_NE(zero.find("C N / (w+g+c+o) = 80 GB * 8 / (2+2+4+8) = 40B"), std::string::npos) << zero;
  const std::string bubble = text_of(explain(find_topic("bubble"), {}));
  EXPECT_NE(bubble.find("(P-1) / (M + P-1) = (4-1) / (8 + 4-1) = 27.27 %"), std::string::npos)
      << bubble;
  EXPECT_NE(bubble.find("least M > 3 * 0.9 / 0.1 = 28"), std::string::npos) << bubble;
  const std::string accumulate = text_of(explain(find_topic("accumulate"), {}));
  EXPECT_NE(accumulate.find("at one time  b = 4\n"), std::string::npos) << accumulate;
}

}  // namespace
}  // namespace tessera
