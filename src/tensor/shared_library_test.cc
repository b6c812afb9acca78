#include "tensor/shared_library.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tensor/machine_folders.h"

namespace tessera {
namespace {

std::string failure(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SharedLibraryTest, AMissingOneSaysWhatToInstall) {
  EXPECT_EQ(failure([] { (void)open_library("libtessera-nothing.so.7", "Nothing"); }),
            "libtessera-nothing.so.7 cannot be opened (it was not found): install Nothing, or name "
            "its folder in TESSERA_CUDA_LIBRARIES");
}

TEST(SharedLibraryTest, ABrokenOneIsNamedInTheWordsOfTheLoader) {
  const std::string folder = ::testing::TempDir() + "tessera-broken";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libtessera-broken.so") << "no library";
  use_folders({.libraries = {folder}});
  const std::string text = failure([] { (void)open_library("libtessera-broken.so", "Broken"); });
  use_folders({});
  EXPECT_NE(text.find(folder + "/libtessera-broken.so: "), std::string::npos) << text;
  std::filesystem::remove_all(folder);
}

TEST(SharedLibraryTest, FindsFunctionsOrSaysThatItIsTooOld) {
  void* const library = open_library("libm.so.6", "the C library");
  double (*cosine)(double) = nullptr;
  look_up(library, "cos", cosine);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(failure([&] { (void)find_function(library, "tessera_nothing"); }),
            "tessera_nothing is not in the library: it is too old for this program");
}

TEST(SharedLibraryTest, AnOldOneSaysWhatWasFoundAndWhatIsNeeded) {
  EXPECT_NO_THROW(require_version("cuDNN", 90500, 90500));
  EXPECT_EQ(failure([] { require_version("cuDNN", 90102, 90500); }),
            "cuDNN: found 9.1.2, need at least 9.5.0: install a newer one, or name its folder in "
            "TESSERA_CUDA_LIBRARIES");
}

}  // namespace
}  // namespace tessera
