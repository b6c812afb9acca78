#include <fmt/format.h>
#include <toml++/impl/version.h>
#include <unistd.h>

#include <CLI/Version.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/machine_facts.h"
#include "kernels/gpu_libraries.h"
#include "kernels/linear.h"
#include "launch/system_files.h"
#include "tensor/cpu_level.h"
#include "tensor/cpu_tiles.h"
#include "tensor/gpu_memory.h"
#include "train/doctor_command.h"

namespace tessera {
namespace {

std::string simd_flags() {
  std::string flags = proc_value("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = proc_value("/proc/cpuinfo", "Features");  // ARM
  const std::string padded = " " + flags + " ";
  std::string found;
  for (const std::string_view name : {"sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_bf16",
                                      "amx_bf16", "asimd", "sve", "bf16"}) {
    if (padded.find(fmt::format(" {} ", name)) == std::string::npos) continue;
    found += fmt::format("{}{}", found.empty() ? "" : " ", name);
  }
  return found.empty() ? "none" : found;
}

int64_t memory_bytes(std::string_view key) {
  std::istringstream value(proc_value("/proc/meminfo", key));  // "16314168 kB"
  int64_t kib = 0;
  value >> kib;
  return kib * 1024;
}

// "always [madvise] never" -> "madvise".
std::string huge_pages() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = line.find('['), close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) return "unknown";
  return line.substr(open + 1, close - open - 1);
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

// The folder itself, or the nearest parent that exists: training creates the rest.
bool can_create_in(const std::filesystem::path& folder) {
  std::filesystem::path at = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(at) && at.has_relative_path()) at = at.parent_path();
  return access(at.c_str(), W_OK | X_OK) == 0;
}

// The GPUs, and what runs on them need: "found X, need at least Y".
void add_gpus(nlohmann::ordered_json& report) {
  const int count = cuda::num_gpus();
  if (count == 0) report["gpu"] = "none: " + cuda::gpu_info(0).why_not;
  for (int device = 0; device < count; ++device) {
    const cuda::GpuInfo gpu = cuda::gpu_info(device);
    const std::string text =
        gpu.why_not.empty()
            ? fmt::format("{}, compute capability {}.{}, {} multiprocessors, {} free of {}",
                          gpu.name, gpu.major, gpu.minor, gpu.multiprocessors,
                          human_bytes(gpu.free_bytes), human_bytes(gpu.total_bytes))
            : gpu.why_not;
    report[fmt::format("gpu_{}", device)] = text;
  }
  for (const kernels::GpuLibrary& library : kernels::gpu_libraries()) {
    std::string text =
        library.found.empty()
            ? fmt::format("not found, need at least {}", library.needed)
            : fmt::format("found {}, need at least {}", library.found, library.needed);
    if (!library.why_not.empty()) text += fmt::format(" ({})", library.why_not);
    report[library.name] = text;
  }
}

nlohmann::ordered_json inspect(const std::string& run_dir) {
  nlohmann::ordered_json report;
  report["schema_version"] = kSchemaVersion;
  report["kind"] = "doctor";
  report["tessera"] = TESSERA_VERSION;
  report["compiler"] = compiler();
  const std::string cpu = proc_value("/proc/cpuinfo", "model name");
  report["cpu"] = cpu.empty() ? "unknown" : cpu;
  report["simd"] = simd_flags();
  report["cores"] = std::thread::hardware_concurrency();
  report["memory_bytes"] = memory_bytes("MemTotal");
  report["memory_available_bytes"] = memory_bytes("MemAvailable");
  report["cpu_level"] = fmt::format("{} of {}", name_of(cpu_level()), name_of(highest_cpu_level()));
  report["tiles"] = cpu_tiles().usable ? "usable" : "none: " + cpu_tiles().why_not;
  report["blas"] = kernels::blas_name();
  report["huge_pages"] = huge_pages();
  report["fmt"] =
      fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  report["toml++"] = fmt::format("{}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH);
  report["nlohmann_json"] = fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                        NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH);
  report["cli11"] = CLI11_VERSION;
  add_gpus(report);
  report["run_dir"] = run_dir;
  report["run_dir_writable"] = can_create_in(run_dir);
  return report;
}

}  // namespace

Command add_doctor(CLI::App& root) {
  CLI::App* app = add_command(root, "doctor",
                              {"Show what Tessera sees of this machine.", "tessera doctor",
                               "tessera plan examples/demo.toml"});
  auto options = std::make_shared<DoctorOptions>();
  add_switch(*app, "--json", options->json, "print JSON");
  add_text(*app, "--run-dir", options->run_dir, "DIR",
           "where runs are to be written (default runs)");
  return {app, [options](Console& console) { return run_doctor(*options, console); }};
}

int run_doctor(const DoctorOptions& options, Console& console) {
  const nlohmann::ordered_json report = inspect(options.run_dir);
  const bool healthy = report["run_dir_writable"].get<bool>();
  if (options.json) {
    console.out << report.dump(2) << '\n';
    return healthy ? 0 : 1;
  }
  for (const auto& [key, value] : report.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (key.ends_with("_bytes")) text = human_bytes(value.get<int64_t>());
    if (value.is_boolean()) text = value.get<bool>() ? "yes" : "no";
    std::string label = key.ends_with("_bytes") ? key.substr(0, key.size() - 6) : key;
    std::replace(label.begin(), label.end(), '_', ' ');
    console.out << fitted(console, fmt::format("{:<18}{}\n", label, text));
  }
  require(healthy, "'{}' cannot be written: change its permissions or set logging.run_dir",
          options.run_dir);
  return 0;
}

}  // namespace tessera
