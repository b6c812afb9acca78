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

TEST(FitWidthTest, ASecondUnitStaysBesideTheFirst) {
  TextTable table(
      {{"part"}, {"calls", Align::kRight}, {"bytes", Align::kRight}, {"", Align::kRight}});
  table.add_row({"parameters", "1", "6,375,866,368", "5.9 GiB"});
  table.add_row({"workspace", "1", "512", "512 B"});
  EXPECT_EQ(fit_width(table.str(), 36),
            "part        calls\n"
            "----------  -----\n"
            "parameters      1\n"
            "workspace       1\n\n"
            "part                bytes\n"
            "----------  -------------  -------\n"
            "parameters  6,375,866,368  5.9 GiB\n"
            "workspace             512    512 B\n");
}

TEST(FitWidthTest, ALongNameOfTheFirstColumnBecomesALineAbove) {
  TextTable table({{"sent by rank 1024 per step"}, {"collective"}, {"bytes", Align::kRight}});
  table.add_row({"dp", "all_gather", "6,326,054,912"});
  table.add_row({"world", "all_reduce", "5,088"});
  EXPECT_EQ(fit_width(table.str(), 40),
            "sent by rank 1024 per step\n"
            "       collective          bytes\n"
            "-----  ----------  -------------\n"
            "dp     all_gather  6,326,054,912\n"
            "world  all_reduce          5,088\n");
}

TEST(FitWidthTest, LongTextIsBrokenInsideItsColumn) {
  TextTable table({{"model"}, {"layers", Align::kRight}, {"source"}});
  table.add_row({"llama-3-8b", "32", "config.json of a folder; arXiv 2407.21783, table 3"});
  table.add_row({"gpt2", "12", "none"});
  EXPECT_EQ(fit_width(table.str(), 44),
            "model       layers\n"
            "----------  ------\n"
            "llama-3-8b      32\n"
            "gpt2            12\n\n"
            "model       source\n"
            "----------  --------------------------------\n"
            "llama-3-8b  config.json of a folder; arXiv\n"
            "            2407.21783, table 3\n"
            "gpt2        none\n");
}

TEST(FitWidthTest, ANumberStaysWithItsUnit) {
  EXPECT_EQ(fit_width("needs 101.3 GiB but has 73.0 GiB", 29),
            "needs 101.3 GiB but has\n  73.0 GiB");
  EXPECT_EQ(fit_width("a step of 12.21 s, MFU 46.6 % here", 29),
            "a step of 12.21 s, MFU 46.6 %\n  here");
}

TEST(FitWidthTest, ALabelAcrossTheLineHasALineOfItsOwn) {
  EXPECT_EQ(fit_width("devices whose memory they fill      (w+g+c+o) P / C = 14", 40),
            "devices whose memory they fill\n    (w+g+c+o) P / C = 14");
  // Characters are counted, not bytes.
  EXPECT_EQ(fit_width("  --vary X,Y,…    with --cluster: a table of the run", 36),
            "  --vary X,Y,…    with --cluster: a\n                  table of the run");
}

TEST(FitWidthTest, WhatIsSaidOfFlagsAndBeforeCommandsIsBroken) {
  EXPECT_EQ(fit_width("  --zero 3 --set parallel.recompute=light: 67.6 GiB of 73.0 GiB", 30),
            "  --zero 3 --set parallel.recompute=light:\n      67.6 GiB of 73.0 GiB");
  EXPECT_EQ(
      fit_width("  --for NAME  only what it can say, as settings: tessera plan --emit NAME", 36),
      "  --for NAME  only what it can say,\n"
      "              as settings:\n"
      "              tessera plan --emit NAME");
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
  EXPECT_EQ(cut_fields(line, 8), "step 12…");
}

}  // namespace
}  // namespace tessera
