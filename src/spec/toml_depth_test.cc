#include "spec/toml_depth.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

std::string repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

TEST(TomlDepthTest, AKeyOfVeryManyPartsIsRefusedWithItsPlace) {
  const std::string deep = "[model]\n[" + repeated("a.", 500'000) + "a]\n";
  try {
    parse_run_file(deep, "deep.toml", {}, {});
    FAIL() << "was read";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()).find("deep.toml:2:131: a key of more than 64 parts"), 0)
        << error.what();
  }
}

TEST(TomlDepthTest, ManyDotsElsewhereAreNoKey) {
  const std::string text = "# " + repeated(".", 200) + "\nnumbers = [" + repeated("1.5, ", 200) +
                           "2]\nname = \"" + repeated("\\\".", 200) + "\"\nother = '" +
                           repeated(".", 200) + "'\n";
  EXPECT_NO_THROW(refuse_deep_keys(text, "wide.toml"));
}

}  // namespace
}  // namespace tessera
