// Whether this program can use a GPU, from what the driver says of it. Pure: tests put in answers
// of their own.
#pragma once

#include <string>
#include <string_view>

namespace tessera::cuda {

struct GpuAnswers {
  int driver_version = 0;   // of the newest CUDA that the driver serves, 13000: 13.0; 0: no driver
  int runtime_version = 0;  // of the CUDA that this program was built with
  std::string count_error;  // why CUDA could not count the GPUs; empty: it could
  int count = 0;
  int device = 0;    // the one that is asked about
  std::string name;  // of it: "NVIDIA H200"
  int major = 0, minor = 0;
  std::string built_for;  // CMAKE_CUDA_ARCHITECTURES, separated by commas: "90-real,80-virtual"
};

// Why it cannot be used and what helps; empty where it can.
std::string why_not(const GpuAnswers& answers);

// Whether code for `architectures` runs on compute capability major.minor: machine code ("90-real")
// on the same major and any later minor, code for the driver to compile ("90-virtual") on all later
// ones, both ("90") on either; that of one chip ("90a") there alone.
bool runs_on(std::string_view architectures, int major, int minor);

}  // namespace tessera::cuda
