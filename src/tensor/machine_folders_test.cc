#include "tensor/machine_folders.h"

#include <gtest/gtest.h>

#include <map>

namespace tessera {
namespace {

MachineFolders folders(std::map<std::string, std::string> variables) {
  return folders_from([&](const std::string& name) { return variables[name]; });
}

TEST(MachineFoldersTest, LibrariesAreAListOfFolders) {
  EXPECT_EQ(folders({{"TESSERA_CUDA_LIBRARIES", "/a:/b/nvidia::"}}).libraries,
            (std::vector<std::string>{"/a", "/b/nvidia"}));
  EXPECT_TRUE(folders({}).libraries.empty());
  EXPECT_EQ(folders({{"CUDA_HOME", "/opt/cuda"}}).cuda_home, "/opt/cuda");
}

TEST(MachineFoldersTest, TheCacheIsWhereTheUserWantsItOrWhereOthersAre) {
  EXPECT_EQ(folders({{"TESSERA_CACHE", "/c"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}).cache,
            "/c");
  EXPECT_EQ(folders({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}).cache, "/x/tessera");
  EXPECT_EQ(folders({{"HOME", "/h"}}).cache, "/h/.cache/tessera");
  EXPECT_EQ(folders({}).cache, "");
}

}  // namespace
}  // namespace tessera
