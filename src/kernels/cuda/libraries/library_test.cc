#include "kernels/cuda/libraries/library.h"

#include <gtest/gtest.h>

#include "kernels/gpu_libraries.h"

namespace tessera::kernels::cuda {
namespace {

TEST(CudaLibraries, AreListedWithAndWithoutAGpu) {
  const std::vector<GpuLibrary> libraries = gpu_libraries();
  ASSERT_EQ(libraries.size(), 5U);
  for (const GpuLibrary& library : libraries) {
    EXPECT_FALSE(library.needed.empty()) << library.name;
    EXPECT_EQ(library.found.empty() && library.why_not.empty(), false) << library.name;
  }
  EXPECT_EQ(libraries[1].name, "CUDA runtime");
  EXPECT_GE(std::stod(libraries[1].found), 12.4);
}

TEST(CudaLibraries, OpenOrSayWhatToInstall) {
  try {
    EXPECT_GE(load_cublaslt()->version, 120400);
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("TESSERA_CUDA_LIBRARIES"), std::string::npos)
        << error.what();
  }
  try {
    EXPECT_GE(load_cudnn()->version, 90000);
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("TESSERA_CUDA_LIBRARIES"), std::string::npos)
        << error.what();
  }
}

TEST(CudaLibraries, MissingOnesAreNamedWithWhatToInstall) {
  const TryOpen finds_nothing = [](const std::string&, std::string& why) -> void* {
    why = "it was not found";
    return nullptr;
  };
  const auto words = [](const auto& load) -> std::string {
    try {
      (void)load();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "it was opened";
  };
  EXPECT_EQ(
      words([&] { return load_cudnn(finds_nothing); }),
      "libcudnn.so.9 cannot be opened (it was not found): install cuDNN, or name its folder in "
      "TESSERA_CUDA_LIBRARIES");
  const std::string cublas = words([&] { return load_cublaslt(finds_nothing); });
  EXPECT_NE(cublas.find("(it was not found): install cuBLAS of the CUDA toolkit, or name its "
                        "folder in TESSERA_CUDA_LIBRARIES"),
            std::string::npos)
      << cublas;
}

}  // namespace
}  // namespace tessera::kernels::cuda
