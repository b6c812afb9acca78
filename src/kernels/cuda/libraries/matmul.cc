#include "kernels/cuda/libraries/matmul.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <numeric>

#include "base/cuda_workspace.h"
#include "base/error.h"
#include "kernels/cuda/gpu.h"
#include "tensor/cuda/check.h"
#include "tensor/gpu_memory.h"

namespace tessera::kernels::cuda {

using tessera::cuda::check;

// cuBLASLt sees columns where we store rows: its D is our c transposed, D[n,m] = op(b)^T op(a)^T.
// So its A is our b, its B is our a, and a matrix counts as transposed when ours does.
struct Matmul::Key {
  DType type, out;
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  Epilogue epilogue;
  int a_align, b_align, c_align, extra_align;  // bytes that the addresses are multiples of
  bool fixed_order;

  auto operator<=>(const Key&) const = default;

  [[nodiscard]] std::string text() const {
    return fmt::format("{}>{} {}x{}x{} {}{}{} epilogue {} align {},{},{},{}{}", name_of(type),
                       name_of(out), m, n, k, transpose_a ? 't' : 'n', transpose_b ? 't' : 'n',
                       accumulate ? '+' : '=', static_cast<int>(epilogue), a_align, b_align,
                       c_align, extra_align, fixed_order ? "" : " any order");
  }
};

namespace {

constexpr int64_t kWorkspaceAlign = 256;
constexpr int64_t kUsableWorkspace = workspace::cuda::kMatmulBytes - kWorkspaceAlign;
constexpr int kMaxCandidates = 24;

template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

cudaDataType_t cuda_type(DType type) {
  switch (type) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      break;
  }
  TESSERA_CHECK(false, "matmul: no products of {}", name_of(type));
  return CUDA_R_32F;
}

cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      break;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kGeluGrad:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_bias(Epilogue e) { return e == Epilogue::kBias || e == Epilogue::kGelu; }
bool has_aux(Epilogue e) { return e == Epilogue::kGelu || e == Epilogue::kGeluGrad; }

// The largest power of two up to 16 that the address is a multiple of.
int alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 16U;
  return static_cast<int>(bits & -bits);
}

std::span<std::byte> aligned(std::span<std::byte> workspace) {
  TESSERA_CHECK(static_cast<int64_t>(workspace.size()) >= workspace::cuda::kMatmulBytes,
                "matmul: workspace of {} bytes, needs {}", workspace.size(),
                workspace::cuda::kMatmulBytes);
  const auto address = reinterpret_cast<uintptr_t>(workspace.data());
  const size_t skip = (kWorkspaceAlign - address % kWorkspaceAlign) % kWorkspaceAlign;
  return workspace.subspan(skip, static_cast<size_t>(kUsableWorkspace));
}

void check_product(const Product& p, const ProductData& data) {
  TESSERA_CHECK(p.out == p.type || (p.out == DType::kF32 && p.type != DType::kF64),
                "matmul: {} from {}", name_of(p.out), name_of(p.type));
  TESSERA_CHECK(p.m >= 0 && p.n >= 0 && p.k >= 0, "matmul: {} x {} x {}", p.m, p.n, p.k);
  TESSERA_CHECK(p.epilogue == Epilogue::kNone || !p.accumulate, "matmul: adds with an epilogue");
  TESSERA_CHECK(!has_bias(p.epilogue) || data.bias != nullptr, "matmul: no bias");
  TESSERA_CHECK(!has_aux(p.epilogue) || data.aux != nullptr, "matmul: no aux");
}

constexpr double kRefused = std::numeric_limits<double>::infinity();

struct Event {
  Event() { check(cudaEventCreate(&event), "making an event"); }
  ~Event() { (void)cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t event = nullptr;
};

}  // namespace

struct Matmul::Plan {
  Key key;
  Owned<cublasLtMatmulDesc_t> operation;
  Owned<cublasLtMatrixLayout_t> a, b, c;  // as ours
  cublasLtMatmulAlgo_t algorithm{};
  bool usable = false;
  bool tuned = false;
};

Matmul::Matmul(const Gpu& gpu)
    : gpu_(gpu),
      library_(load_cublaslt()),
      choices_(tessera::cuda::gpu_info(gpu.device()).name, library_->version) {
  library_->check(library_->cublasLtCreate(&handle_), "starting cuBLASLt");
}

Matmul::~Matmul() {
  plans_.clear();
  (void)library_->cublasLtDestroy(handle_);
}

std::unique_ptr<Matmul::Plan> Matmul::describe(const Key& key, const ProductData& data) const {
  const CublasLt& lt = *library_;
  const auto layout = [&](DType type, int64_t rows, int64_t cols) {
    cublasLtMatrixLayout_t handle = nullptr;
    lt.check(lt.cublasLtMatrixLayoutCreate(&handle, cuda_type(type), static_cast<uint64_t>(cols),
                                           static_cast<uint64_t>(rows), cols),
             "describing a matrix");
    return Owned<cublasLtMatrixLayout_t>(handle, lt.cublasLtMatrixLayoutDestroy);
  };
  const bool wide = key.type == DType::kF64;
  cublasLtMatmulDesc_t operation = nullptr;
  lt.check(lt.cublasLtMatmulDescCreate(&operation, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                       wide ? CUDA_R_64F : CUDA_R_32F),
           "describing a product");
  auto plan = std::make_unique<Plan>(
      Plan{.key = key,
           .operation = {operation, lt.cublasLtMatmulDescDestroy},
           .a = key.transpose_a ? layout(key.type, key.k, key.m) : layout(key.type, key.m, key.k),
           .b = key.transpose_b ? layout(key.type, key.n, key.k) : layout(key.type, key.k, key.n),
           .c = layout(key.out, key.m, key.n)});
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    lt.check(lt.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
             "describing a product");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(key.epilogue));
  if (has_bias(key.epilogue)) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(cuda_type(key.out)));
  }
  if (has_aux(key.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.n);
  set_pointers(*plan, data);
  return plan;
}

void Matmul::set_pointers(const Plan& plan, const ProductData& data) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, void* const& pointer) {
    library_->check(library_->cublasLtMatmulDescSetAttribute(plan.operation.get(), attribute,
                                                             &pointer, sizeof(pointer)),
                    "describing a product");
  };
  if (has_bias(plan.key.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data.bias);
  if (has_aux(plan.key.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, data.aux);
}

// Fills `candidates` from the front, best first; returns how many there are.
int Matmul::suggest(const Plan& plan, std::span<Candidate> candidates) const {
  const CublasLt& lt = *library_;
  const Key& key = plan.key;
  cublasLtMatmulPreference_t handle = nullptr;
  lt.check(lt.cublasLtMatmulPreferenceCreate(&handle), "asking for algorithms");
  const Owned<cublasLtMatmulPreference_t> preference(handle, lt.cublasLtMatmulPreferenceDestroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    lt.check(lt.cublasLtMatmulPreferenceSetAttribute(handle, attribute, &value, sizeof(value)),
             "asking for algorithms");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kUsableWorkspace));
  // Parts of a sum may meet in a second pass, in the type of the sum; in place only where the order
  // does not matter.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(key.fixed_order ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                            : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                                  CUBLASLT_REDUCTION_SCHEME_INPLACE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key.b_align));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(key.a_align));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(key.c_align));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(key.c_align));
  int found = 0;
  const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.operation.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(), handle,
      static_cast<int>(candidates.size()), candidates.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return 0;
  lt.check(status, "asking for algorithms");
  const auto end = std::remove_if(candidates.begin(), candidates.begin() + found,
                                  [](const auto& c) { return c.state != CUBLAS_STATUS_SUCCESS; });
  return static_cast<int>(end - candidates.begin());
}

bool Matmul::restore_choice(Plan& plan) const {
  const auto choice = choices_.find(plan.key.text());
  if (!choice) return false;
  cublasLtMatmulAlgo_t algorithm{};
  static_assert(sizeof(algorithm) == sizeof(*choice));
  std::copy(choice->begin(), choice->end(), algorithm.data);
  Candidate checked{};
  const cublasStatus_t status =
      library_->cublasLtMatmulAlgoCheck(handle_, plan.operation.get(), plan.b.get(), plan.a.get(),
                                        plan.c.get(), plan.c.get(), &algorithm, &checked);
  if (status != CUBLAS_STATUS_SUCCESS ||
      checked.workspaceSize > static_cast<size_t>(kUsableWorkspace)) {
    return false;
  }
  plan.algorithm = algorithm;
  plan.usable = plan.tuned = true;
  return true;
}

// The plan of this product, with the pointers of this call.
Matmul::Plan& Matmul::plan_of(const Product& p, const ProductData& data) {
  const int extra = std::min(has_bias(p.epilogue) ? alignment_of(data.bias) : 16,
                             has_aux(p.epilogue) ? alignment_of(data.aux) : 16);
  const Key key{.type = p.type,
                .out = p.out,
                .m = p.m,
                .n = p.n,
                .k = p.k,
                .transpose_a = p.transpose_a,
                .transpose_b = p.transpose_b,
                .accumulate = p.accumulate,
                .epilogue = p.epilogue,
                .a_align = alignment_of(data.a),
                .b_align = alignment_of(data.b),
                .c_align = alignment_of(data.c),
                .extra_align = extra,
                .fixed_order = gpu_.deterministic()};
  const auto found = plans_.find(key);
  if (found != plans_.end()) {
    set_pointers(*found->second, data);
    return *found->second;
  }
  auto plan = describe(key, data);
  if (!restore_choice(*plan)) {
    Candidate first{};
    plan->usable = suggest(*plan, {&first, 1}) == 1;
    plan->algorithm = first.algo;
  }
  return *plans_.emplace(key, std::move(plan)).first->second;
}

cublasStatus_t Matmul::launch(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                              const ProductData& data, std::span<std::byte> workspace) const {
  const double one = 1, beta = plan.key.accumulate ? 1 : 0;
  const float one_f32 = 1, beta_f32 = plan.key.accumulate ? 1 : 0;
  const bool wide = plan.key.type == DType::kF64;
  const void* const alpha_at = wide ? static_cast<const void*>(&one) : &one_f32;
  const void* const beta_at = wide ? static_cast<const void*>(&beta) : &beta_f32;
  const std::span<std::byte> scratch = aligned(workspace);
  return library_->cublasLtMatmul(handle_, plan.operation.get(), alpha_at, data.b, plan.b.get(),
                                  data.a, plan.a.get(), beta_at, data.c, plan.c.get(), data.c,
                                  plan.c.get(), &algorithm, scratch.data(), scratch.size(),
                                  gpu_.stream());
}

bool Matmul::serves(const Product& product, const ProductData& data) {
  check_product(product, data);
  if (product.m == 0 || product.n == 0 || product.k == 0) {
    return product.epilogue == Epilogue::kNone;
  }
  return plan_of(product, data).usable;
}

void Matmul::run(const Product& product, const ProductData& data, std::span<std::byte> workspace) {
  check_product(product, data);
  if (product.m == 0 || product.n == 0) return;
  if (product.k == 0) {
    TESSERA_CHECK(product.epilogue == Epilogue::kNone, "matmul: an epilogue of an empty product");
    if (product.accumulate) return;
    const int64_t bytes = product.m * product.n * size_bytes(product.out);
    check(cudaMemsetAsync(data.c, 0, static_cast<size_t>(bytes), gpu_.stream()), "matmul");
    return;
  }
  if (tune_at_first_use_ && !plan_of(product, data).tuned) tune(product, data, workspace);
  const Plan& plan = plan_of(product, data);
  if (!plan.usable) throw Error("cuBLASLt has no algorithm for " + plan.key.text());
  const cublasStatus_t status = launch(plan, plan.algorithm, data, workspace);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(
      fmt::format("product {}: {}", plan.key.text(), library_->cublasLtGetStatusString(status)));
}

// Microseconds of one product, from `repeats` of them, or infinity where the algorithm refuses.
double Matmul::time(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                    const ProductData& data, std::span<std::byte> workspace, int repeats) const {
  const Event begin, end;
  check(cudaEventRecord(begin.event, gpu_.stream()), "timing a product");
  for (int i = 0; i < repeats; ++i) {
    if (launch(plan, algorithm, data, workspace) != CUBLAS_STATUS_SUCCESS) return kRefused;
  }
  check(cudaEventRecord(end.event, gpu_.stream()), "timing a product");
  check(cudaEventSynchronize(end.event), "timing a product");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.event, end.event), "timing a product");
  return static_cast<double>(milliseconds) * 1000 / repeats;
}

// The best of a few short rounds, for every candidate. All take part in each round, because the
// card may be slower at first, for what came before.
std::vector<double> Matmul::short_times(const Plan& plan, std::span<const Candidate> candidates,
                                        const ProductData& data,
                                        std::span<std::byte> workspace) const {
  constexpr int kRounds = 3;
  constexpr double kRoundMicroseconds = 1000;
  std::vector<double> times(candidates.size(), kRefused);
  std::vector<int> repeats(candidates.size(), 0);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto once = [&] { return time(plan, candidates[i].algo, data, workspace, 1); };
    if (once() == kRefused) continue;  // the first use of a kernel also loads it
    repeats[i] =
        static_cast<int>(std::clamp(kRoundMicroseconds / std::max(once(), 1.0), 1.0, 20.0));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (repeats[i] == 0) continue;
      times[i] = std::min(times[i], time(plan, candidates[i].algo, data, workspace, repeats[i]));
    }
  }
  return times;
}

// Short rounds favour algorithms that draw more power than the card may have for long, as it does
// in a training step: those that are nearly equal are measured again once the card has settled.
size_t Matmul::best_for_long(const Plan& plan, std::span<const Candidate> candidates,
                             std::span<const double> short_times, const ProductData& data,
                             std::span<std::byte> workspace) const {
  constexpr double kNearlyEqual = 1.08, kWorthwhile = 50;
  constexpr double kHeating = 80'000, kSettling = 30'000, kMeasuring = 50'000;
  constexpr size_t kMost = 6;
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return short_times[a] < short_times[b]; });
  size_t best = order.front();
  const double fastest = short_times[best];
  if (fastest < kWorthwhile || fastest == kRefused) return best;
  const auto run_for = [&](size_t i, double duration) {
    const auto repeats = static_cast<int>(std::max(duration / short_times[i], 1.0));
    return time(plan, candidates[i].algo, data, workspace, repeats);
  };
  order.resize(std::min(order.size(), kMost));
  std::erase_if(order, [&](size_t i) { return short_times[i] > kNearlyEqual * fastest; });
  if (order.size() == 1) return best;
  run_for(best, kHeating);
  double best_time = kRefused;
  for (const size_t i : order) {
    run_for(i, kSettling);
    const double taken = run_for(i, kMeasuring);
    if (taken >= best_time) continue;
    best_time = taken;
    best = i;
  }
  return best;
}

void Matmul::tune(const Product& product, const ProductData& data, std::span<std::byte> workspace) {
  check_product(product, data);
  if (product.m == 0 || product.n == 0 || product.k == 0) return;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(gpu_.stream(), &capture), "tuning a product");
  if (capture != cudaStreamCaptureStatusNone) return;
  Plan& plan = plan_of(product, data);
  plan.tuned = true;
  std::vector<Candidate> candidates(kMaxCandidates);
  candidates.resize(static_cast<size_t>(suggest(plan, candidates)));
  if (candidates.empty()) return;
  const std::vector<double> times = short_times(plan, candidates, data, workspace);
  const size_t best = best_for_long(plan, candidates, times, data, workspace);
  if (times[best] == kRefused) return;
  plan.algorithm = candidates[best].algo;
  MatmulChoices::Algorithm choice{};
  std::copy(std::begin(plan.algorithm.data), std::end(plan.algorithm.data), choice.begin());
  choices_.add(plan.key.text(), choice, times[best]);
}

void Matmul::keep_choices_in(const std::string& path) {
  choices_.open(path);
  for (auto& [key, plan] : plans_) restore_choice(*plan);
}

}  // namespace tessera::kernels::cuda
