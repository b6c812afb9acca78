#include "base/text/fit_width.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text/text.h"

namespace tessera {
namespace {

std::string wide_table() {
  TextTable table({{"rank", Align::kRight},
                   {"layers", Align::kLeft},
                   {"parameters", Align::kRight},
                   {"activations", Align::kRight},
                   {"total", Align::kRight}});
  table.add_row({"0", "embed 0-6", "6,107,365,376", "83,014,189,056", "101,644,331,520"});
  table.add_rule();
  table.add_row({"12", "7-14…", "6,375,866,368", "89,306,955,776", "108,753,089,536"});
  return table.str();
}

size_t longest_line(const std::string& text) {
  size_t longest = 0;
  for (const std::string_view line : split(text, '\n')) {
    longest = std::max(
        longest, static_cast<size_t>(std::count_if(line.begin(), line.end(), [](unsigned char c) {
          return (c & 0xC0U) != 0x80U;
        })));
  }
  return longest;
}

TEST(FitWidthTest, WhatFitsAndWhatGoesIntoAPipeStaysAsItIs) {
  const std::string text = "a title\n" + wide_table() + "\nthe end\n";
  EXPECT_EQ(fit_width(text, 0), text);
  EXPECT_EQ(fit_width(text, 200), text);
}

TEST(FitWidthTest, NumbersOfWideTablesStayWholeAndNoneIsLost) {
  const std::string table = wide_table();
  for (const size_t columns : {60U, 40U, 30U, 20U}) {
    const std::string text = fit_width(table, columns);
    EXPECT_LE(longest_line(text), std::max<size_t>(columns, 22)) << text;
    for (const char* cell : {"parameters", "activations", "embed 0-6", "7-14…", "6,107,365,376",
                             "83,014,189,056", "101,644,331,520", "108,753,089,536"}) {
      EXPECT_NE(text.find(cell), std::string::npos) << cell << " at " << columns << "\n" << text;
    }
  }
  EXPECT_EQ(fit_width(table, 46),
            "rank  layers        parameters     activations\n"
            "----  ---------  -------------  --------------\n"
            "   0  embed 0-6  6,107,365,376  83,014,189,056\n"
            "----  ---------  -------------  --------------\n"
            "  12  7-14…      6,375,866,368  89,306,955,776\n\n"
            "rank            total\n"
            "----  ---------------\n"
            "   0  101,644,331,520\n"
            "----  ---------------\n"
            "  12  108,753,089,536\n");
}

TEST(FitWidthTest, BlocksHaveTheColumnsThatTellRowsApart) {
  TextTable table({{"group"}, {"collective"}, {"calls", Align::kRight}, {"bytes", Align::kRight}});
  table.add_row({"dp", "all_gather", "40", "6,326,054,912"});
  table.add_row({"dp", "reduce_scatter", "40", "12,652,109,824"});
  const std::string text = fit_width(table.str(), 38);
  EXPECT_NE(text.find("dp     reduce_scatter  12,652,109,824\n"), std::string::npos) << text;
}

TEST(FitWidthTest, TextAfterATableIsNoRowOfIt) {
  const std::string text = fit_width(wide_table() + "fits: 39.4 GiB of a rank's 73.0 GiB\n", 46);
  EXPECT_TRUE(text.ends_with("108,753,089,536\nfits: 39.4 GiB of a rank's 73.0 GiB\n")) << text;
}

TEST(FitWidthTest, LinesAreBrokenAtSpacesButCommandsAreNot) {
  EXPECT_EQ(fit_width("mesh      pp=16 x dp=128 (16,384 ranks), ZeRO-1", 32),
            "mesh      pp=16 x dp=128 (16,384\n          ranks), ZeRO-1");
  EXPECT_EQ(fit_width("  one two three", 9), "  one two\n    three");
  const std::string command =
      "  tessera plan examples/demo.toml\n  --set model.layers=4 --mesh dp=2";
  EXPECT_EQ(fit_width(command, 12), command);
  EXPECT_EQ(fit_width("  --json  print JSON instead", 20),
            "  --json  print JSON\n          instead");
}

TEST(FitWidthTest, FieldsAreLeftOutAtTheEnd) {
  const std::string line = "step 120/1000 12% | loss 3.2100 | 41.2k tok/s";
  EXPECT_EQ(cut_fields(line, 80), line);
  EXPECT_EQ(cut_fields(line, 40), "step 120/1000 12% | loss 3.2100");
  EXPECT_EQ(cut_fields(line, 30), "step 120/1000 12%");
  EXPECT_EQ(cut_fields(line, 8), "step 120");
}

}  // namespace
}  // namespace tessera
