#include "base/text/text.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::string_view kNames[] = {"layers", "hidden", "seq_len", "heads", "kv_heads", "tp"};

TEST(TextTest, TrimsAndSplits) {
  EXPECT_EQ(trim(" \t a b \n"), "a b");
  EXPECT_EQ(trim("   "), "");
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
}

TEST(TextTest, EditDistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("hiddne", "hidden"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("Layers", "layers"), 0);
}

TEST(TextTest, SuggestsTheNearestNameOrListsThem) {
  EXPECT_EQ(nearest_name("layer", kNames), "layers");
  EXPECT_EQ(nearest_name("head", kNames), "heads");
  EXPECT_EQ(nearest_name("seq", kNames), "seq_len");
  EXPECT_EQ(nearest_name("tq", kNames), "tp");
  EXPECT_EQ(nearest_name("xy", kNames), "");
  EXPECT_EQ(nearest_name("learning_rate", kNames), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'l'), kNames), "");
  EXPECT_EQ(suggestion("layer", kNames, "keys"), "did you mean 'layers'?");
  EXPECT_EQ(suggestion("zzz", kNames, "keys"),
            "known keys: layers, hidden, seq_len, heads, kv_heads, tp");
}

TEST(TextTest, SizesUseTheLargestUnitThatFits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(12'897'485), "12.3 MiB");
  EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(-2048), "-2.0 KiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
}

TEST(TextTest, SharesHaveOneDigit) {
  EXPECT_EQ(percent_text(1, 8), "12.5 %");
  EXPECT_EQ(percent_text(3, 2), "150.0 %");
  EXPECT_EQ(percent_text(1, 0), "0.0 %");
}

TEST(TextTest, CountsHaveThousandsSeparators) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(-1000), "-1,000");
  EXPECT_EQ(with_thousands(-999), "-999");
  EXPECT_EQ(with_thousands(1234567), "1,234,567");
  EXPECT_EQ(with_thousands(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(count_of(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(count_of(2048, "micro-batch"), "2,048 micro-batches");
  EXPECT_EQ(count_of(0, "rank"), "0 ranks");
  EXPECT_EQ(count_of(1, "process"), "1 process");
  EXPECT_EQ(count_of(2, "process"), "2 processes");
  EXPECT_EQ(count_of(1, "copy"), "1 copy");
  EXPECT_EQ(count_of(3, "copy"), "3 copies");
  EXPECT_EQ(count_of(1000, "day"), "1,000 days");
}

TEST(TextTest, QuotedTextIsShortAndPrintable) {
  EXPECT_EQ(in_quotes("four"), "\"four\"");
  EXPECT_EQ(in_quotes("a\"b\n"), "\"a\\\"b\\x0a\"");
  EXPECT_EQ(in_quotes("abcdef", 3), "\"abc\"… (6 characters)");
  EXPECT_EQ(in_quotes("\u009b\u202e\xff\x1b"), "\"\\u009b\\u202e\\xff\\x1b\"");
  EXPECT_EQ(in_quotes("äöü", 2), "\"äö\"… (3 characters)");
}

TEST(TextTest, TablesAlignColumns) {
  TextTable table({{"name"}, {"bytes", Align::kRight}, {"note"}});
  table.add_row({"wé", "12", ""});
  table.add_row({"embedding", "1,024", "tied"});
  table.add_rule();
  table.add_row({"total", "1,036", ""});
  EXPECT_EQ(table.str(),
            "name       bytes  note\n"
            "---------  -----  ----\n"
            "wé            12\n"
            "embedding  1,024  tied\n"
            "---------  -----  ----\n"
            "total      1,036\n");
  EXPECT_THROW(table.add_row({"one cell"}), InternalError);
}

}  // namespace
}  // namespace tessera
