// What `tessera bench step` measured, for people and machines. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compile/program/instruction_cost.h"
#include "train/machine/device_rates.h"
#include "train/machine/step_bench.h"

namespace tessera {

// What MFU is a share of, and whence it is known.
struct Peak {
  double flops_per_s = 0;
  std::string source;  // "NVIDIA H200, bf16", "measured by a large product"
};
// `tflops`: as the user says; 0: by the name of the GPU where it is known, else as measured.
Peak choose_peak(double tflops, const std::string& gpu_name, DType dtype, const DeviceRates& rates);

struct StepReport {
  const CompiledRun& run;
  StepBenchResult result;
  DeviceRates rates;
  Peak peak;
  std::string device;  // "cpu", "NVIDIA H200"
};

// All instructions of one class on rank 0, in one step.
struct ClassRow {
  OpClass op_class = OpClass::kProducts;
  int64_t instructions = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;    // read and written
  double floor_s = 0;  // of every instruction the larger of its flops' and its bytes' least time
};
// Classes that the program has.
std::vector<ClassRow> class_rows(const Program& program, const std::vector<double>& instruction_s,
                                 const DeviceRates& rates);

// The same for instructions of one op on operands of the same sizes, the slowest first.
struct KindRow {
  std::string kind;  // "linear 65536x768 2304x768 > 65536x2304"
  ClassRow sums;
};
std::vector<KindRow> kind_rows(const Program& program, const std::vector<double>& instruction_s,
                               const DeviceRates& rates);

// What the backward passes of all ranks compute again.
double recomputed_flops(const std::vector<Program>& programs);

std::string step_text(const StepReport& report);
nlohmann::ordered_json step_json(const StepReport& report);

}  // namespace tessera
