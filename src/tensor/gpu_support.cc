#include "tensor/gpu_support.h"

#include <charconv>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::cuda {
namespace {

constexpr int kOldestMajor = 8;  // bodies are written for these and later

// 13000 -> "13.0"
std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

bool one_runs_on(std::string_view architecture, int major, int minor) {
  if (architecture.starts_with("all")) return true;
  int number = 0;  // 90: 9.0
  const char* begin = architecture.data();
  const auto [end, error] = std::from_chars(begin, begin + architecture.size(), number);
  if (error != std::errc()) return false;
  const std::string_view rest = architecture.substr(static_cast<size_t>(end - begin));
  const int asked = 10 * major + minor;
  if (rest.starts_with("a")) return asked == number;
  const bool machine_code = !rest.ends_with("-virtual");
  const bool compiled_later = !rest.ends_with("-real");
  return asked >= number && ((machine_code && major == number / 10) || compiled_later);
}

}  // namespace

bool runs_on(std::string_view architectures, int major, int minor) {
  for (const std::string_view architecture : split(architectures, ',')) {
    if (one_runs_on(architecture, major, minor)) return true;
  }
  return false;
}

std::string why_not(const GpuAnswers& answers) {
  if (answers.driver_version == 0) return "this machine has no NVIDIA driver";
  if (answers.driver_version / 1000 < answers.runtime_version / 1000) {
    return fmt::format(
        "the driver serves CUDA {}, this program needs at least {}.0: update the driver",
        cuda_version_text(answers.driver_version), answers.runtime_version / 1000);
  }
  if (!answers.count_error.empty()) {
    return fmt::format(
        "there is a driver, but no GPU can be seen ({}): look at nvidia-smi and at "
        "CUDA_VISIBLE_DEVICES",
        answers.count_error);
  }
  if (answers.device < 0 || answers.device >= answers.count) {
    return fmt::format("there is no GPU {}, this machine has {}", answers.device, answers.count);
  }
  if (answers.major < kOldestMajor) {
    return fmt::format("{} has compute capability {}.{}, this program needs at least {}.0",
                       answers.name, answers.major, answers.minor, kOldestMajor);
  }
  if (runs_on(answers.built_for, answers.major, answers.minor)) return "";
  return fmt::format(
      "{} has compute capability {}.{}, this program was built for {}: configure it with "
      "-DTESSERA_CUDA_ARCHITECTURES={}{} and build it again",
      answers.name, answers.major, answers.minor, answers.built_for, answers.major, answers.minor);
}

}  // namespace tessera::cuda
