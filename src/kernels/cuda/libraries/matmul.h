// Matrix products by cuBLASLt: c[m,n] (+)= op(a)[m,k] op(b)[k,n] on dense row-major matrices, with
// what follows a product done before it is stored where cuBLASLt can. Sums are in f64 for f64 and
// in f32 for the others (never TF32), in a fixed order unless the Gpu is told otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/cuda/libraries/library.h"
#include "kernels/cuda/libraries/matmul_choices.h"

namespace tessera::kernels::cuda {

class Gpu;

enum class Epilogue {
  kNone,
  kBias,      // c = product + bias[n]
  kGelu,      // aux[m,n] = product + bias[n]; c = gelu(aux), the tanh form
  kGeluGrad,  // c = product * gelu'(aux)
};

struct Product {
  DType type = DType::kBF16;  // of a and b
  DType out = DType::kBF16;   // of c, bias and aux: that of a and b, or f32
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is stored as [k,m]
  bool transpose_b = false;  // b is stored as [n,k]
  bool accumulate = false;   // not with an epilogue
  Epilogue epilogue = Epilogue::kNone;
};

// Where the matrices are, on the GPU; `bias` and `aux` as the epilogue says.
struct ProductData {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* bias = nullptr;
  void* aux = nullptr;
};

// Used by one thread at a time, on the stream of its Gpu. `workspace` has
// workspace::cuda::kMatmulBytes.
class Matmul {
 public:
  explicit Matmul(const Gpu& gpu);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Puts the product on the stream. A matrix without elements is fine; without k, c becomes zero or
  // stays. Throws Error where cuBLASLt cannot do it.
  void run(const Product& product, const ProductData& data, std::span<std::byte> workspace);

  // Whether run() can do it: an epilogue may need sizes and addresses that are multiples of 16
  // bytes.
  [[nodiscard]] bool serves(const Product& product, const ProductData& data);

  // Measures the algorithms that cuBLASLt suggests, on these matrices, and takes the fastest from
  // now on. Waits for the GPU; what is in c, bias and aux is lost. Nothing inside a stream capture.
  void tune(const Product& product, const ProductData& data, std::span<std::byte> workspace);
  // While on, run() tunes every product that it has not met before: for a step whose results do
  // not matter.
  void tune_at_first_use(bool on) { tune_at_first_use_ = on; }
  // Reads the choices of runs before this one, and adds those of this one (matmul_choices.h).
  void keep_choices_in(const std::string& path);

 private:
  struct Key;
  struct Plan;
  using Candidate = cublasLtMatmulHeuristicResult_t;

  Plan& plan_of(const Product& product, const ProductData& data);
  std::unique_ptr<Plan> describe(const Key& key, const ProductData& data) const;
  void set_pointers(const Plan& plan, const ProductData& data) const;
  int suggest(const Plan& plan, std::span<Candidate> candidates) const;
  bool restore_choice(Plan& plan) const;
  cublasStatus_t launch(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                        const ProductData& data, std::span<std::byte> workspace) const;
  double time(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const ProductData& data,
              std::span<std::byte> workspace, int repeats) const;
  std::vector<double> short_times(const Plan& plan, std::span<const Candidate> candidates,
                                  const ProductData& data, std::span<std::byte> workspace) const;
  size_t best_for_long(const Plan& plan, std::span<const Candidate> candidates,
                       std::span<const double> short_times, const ProductData& data,
                       std::span<std::byte> workspace) const;

  const Gpu& gpu_;
  std::shared_ptr<const CublasLt> library_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  MatmulChoices choices_;
  bool tune_at_first_use_ = false;
};

}  // namespace tessera::kernels::cuda
