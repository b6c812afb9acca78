#include "launch/system_files.h"

#include <gtest/gtest.h>

#include "base/testing/test_folder.h"

namespace tessera {
namespace {

using testing::TestFolder;

TEST(SystemFilesTest, AFileSaysItsFirstLine) {
  TestFolder folder;
  folder.write("two", "always [madvise] never\nmore\n");
  EXPECT_EQ(first_line(folder.path("two")), "always [madvise] never");
  EXPECT_EQ(first_line(folder.path("missing")), "");
}

TEST(SystemFilesTest, TheFirstLineWithAKeyHasItsValue) {
  TestFolder folder;
  folder.write("cpuinfo", "model\t: 17\nmodel name\t: One: of two\nmodel name\t: Other\n");
  EXPECT_EQ(proc_value(folder.path("cpuinfo"), "model name"), "One: of two");
  EXPECT_EQ(proc_value(folder.path("cpuinfo"), "model"), "17");
  EXPECT_EQ(proc_value(folder.path("cpuinfo"), "name"), "");
  EXPECT_EQ(proc_value(folder.path("missing"), "model"), "");
}

}  // namespace
}  // namespace tessera
