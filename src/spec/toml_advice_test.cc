#include "spec/toml_advice.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "spec/toml_entries.h"

namespace tessera {
namespace {

std::string refusal(const std::string& text) {
  try {
    (void)entries_of_toml(text, "run.toml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_advice(const std::string& text, const std::string& advice) {
  const std::string said = refusal(text);
  EXPECT_NE(said.find(advice), std::string::npos) << text << "\nsays: " << said;
}

TEST(TomlAdviceTest, OtherFormatsAreNamed) {
  expect_advice("model:\n  preset: gpt2\n", "run.toml:1:6: ");
  expect_advice("model:\n  preset: gpt2\n", "this is how YAML is written");
  expect_advice("[train]\nsteps: 5\n", "run.toml:2:6: ");
  expect_advice("[train]\nsteps: 5\n", "write name = value");
  expect_advice(" {\"model\": {}}", "run.toml: this is JSON, and a run file is TOML");
  expect_advice(std::string("\xff\xfe[\0m\0", 6), "the file is UTF-16: save it as UTF-8");
  expect_advice(std::string("\x7f"
                            "ELF\0\0",
                            6),
                "this is no text file");
  expect_advice("hello\n", "a line of TOML is name = value, or [section]");
}

TEST(TomlAdviceTest, SlipsOfTheHandGetTheLineAsItShouldBe) {
  expect_advice("[model]\npreset = gpt2\n", "a text goes between quotes: preset = \"gpt2\"");
  expect_advice("[data]\npath = /data/x.txt # mine\n", "path = \"/data/x.txt\"");
  expect_advice("[model]\ntied = True\n", "write tied = true");
  expect_advice("[model]\ntied = no\n", "write tied = false");
  expect_advice("[model]\npreset = None\n", "leave the key preset out");
  expect_advice("[train]\nsteps = 1,000\n", "without commas: steps = 1000");
  expect_advice("[model]\npreset = \"gpt2\n", "the closing \" is missing");
  expect_advice("[train\nsteps = 5\n", "the closing ] is missing");
  expect_advice("[data]\npath = \"C:\\Users\\me\\x.txt\"\n", "write the path with /");
  expect_advice("[train]\nsteps = 5\nsteps = 6\n", "it is there twice: keep one of them");
  expect_advice("[model]\npreset = “gpt2”\n",
                "a typographic quote (U+201C), from a page or a document: write preset = \"gpt2\"");
  expect_advice("[train]\nsteps\u00a0= 5\n", "write steps = 5");
}

TEST(TomlAdviceTest, NothingIsInvented) {
  EXPECT_EQ(toml_advice("[a]\nx = [1, 2\n", 2, "expected ]"), "");
  EXPECT_EQ(toml_advice("", 1, ""), "");
  EXPECT_EQ(toml_advice("a = 1", 99, ""), "");
  EXPECT_EQ(refusal("[model]\npreset = \"gpt2\"\n"), "");
  EXPECT_EQ(parser_reason("Error while parsing value: no type: x"), "no type: x");
  EXPECT_EQ(parser_reason("too deep: x"), "too deep: x");
}

}  // namespace
}  // namespace tessera
