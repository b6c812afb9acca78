// How much of what a core can multiply and add our products reach, on one thread.
//
//   gemm_bench [A|B|C|all] [LIBRARY]
//
// For the products of the training steps of bench/cpu (forward, gradient of the input, gradient of
// the weights) each level's body runs in turn with a loop of nothing but fused multiply-adds of the
// same width, in slices of milliseconds: the median of the ratios holds also on a machine that is
// shared. LIBRARY is a shared library with cblas_sgemm, such as
// /usr/lib/x86_64-linux-gnu/blis-serial/libblis.so.4: it runs in the same rounds.
//
//   gemm_bench bf16 [A|B|C|all]
//
// The products of bf16: pairs (v4-bf16) and tiles (v4-amx), beside the f32 of v4, and the peak of
// the tiles. On a CPU without them it says so.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "kernels/cpu/levels/product.h"
#include "kernels/cpu/levels/tiles.h"
#include "tensor/cpu_level.h"
#include "tensor/cpu_tiles.h"

namespace tessera {
namespace {

using kernels::cpu::levels::Product;
using kernels::cpu::levels::Products;

struct Shape {
  const char* run;
  int64_t tokens, in, out;
};
constexpr Shape kShapes[] = {
    {"A", 2048, 256, 512},  {"A", 2048, 256, 256},   {"A", 2048, 256, 1536}, {"A", 2048, 768, 256},
    {"A", 2048, 256, 8192}, {"B", 2048, 512, 1024},  {"B", 2048, 512, 512},  {"B", 2048, 512, 2816},
    {"B", 2048, 1408, 512}, {"B", 2048, 512, 16384}, {"C", 2048, 768, 2304}, {"C", 2048, 768, 768},
    {"C", 2048, 768, 3072}, {"C", 2048, 3072, 768},  {"C", 512, 768, 50304}};
// A head of attention on blocks of rows.
constexpr Shape kSmall[] = {{"small", 64, 64, 256}, {"small", 64, 256, 64}, {"small", 64, 64, 64}};

// Time on the core alone: others may have it in between.
double now() {
  timespec at{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
}

// GFLOP/s of twelve independent chains, which no latency holds up.
#define PROBE(name, reg, lanes)                                                                 \
  double name() {                                                                               \
    constexpr int64_t kRounds = 300'000;                                                        \
    int64_t left = kRounds;                                                                     \
    const double begin = now();                                                                 \
    asm volatile(                                                                               \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vxorps %%xmm\\r,%%xmm\\r,%%xmm\\r\n "   \
        ".endr\n"                                                                               \
        "1:\n .irp r,0,1,2,3,4,5,6,7,8,9,10,11\n vfmadd231ps %%" reg "12,%%" reg "13,%%" reg    \
        "\\r\n .endr\n dec %0\n jne 1b\n vzeroupper\n"                                          \
        : "+r"(left)                                                                            \
        :                                                                                       \
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
          "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");                                \
    return static_cast<double>(kRounds) * 24 * (lanes) / (now() - begin) / 1e9;                 \
  }
PROBE(probe_v3, "ymm", 8)
PROBE(probe_v4, "zmm", 16)

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

Sgemm load_library(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fmt::print(stderr, "gemm_bench: {}\n", dlerror());
    std::exit(2);
  }
  return reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

enum class Kind { kForward, kInputGrad, kWeightGrad };
constexpr const char* kNames[] = {"y = x w'", "dx = dy w", "dw += dy' x"};

// m, n and k of the product, and which operand is read across its rows.
struct Call {
  int64_t m, n, k;
  bool trans_a, trans_b, accumulate;
  [[nodiscard]] double flops() const { return 2.0 * static_cast<double>(m * n * k); }
};
Call call_of(const Shape& s, Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return {s.tokens, s.out, s.in, false, true, false};
    case Kind::kInputGrad:
      return {s.tokens, s.in, s.out, false, false, false};
    case Kind::kWeightGrad:
      break;
  }
  return {s.out, s.in, s.tokens, true, false, true};
}

// Numbers in large pages, as arenas of a step have them.
class Numbers {
 public:
  Numbers(int64_t count, float value)
      : bytes_((static_cast<size_t>(count) * sizeof(float) + kPage - 1) / kPage * kPage) {
    data_ = static_cast<float*>(std::aligned_alloc(kPage, bytes_));
    (void)madvise(data_, bytes_, MADV_HUGEPAGE);
    std::fill_n(data_, count, value);
  }
  ~Numbers() { std::free(data_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  [[nodiscard]] float* data() const { return data_; }

 private:
  static constexpr size_t kPage = size_t{1} << 21;
  size_t bytes_;
  float* data_;
};

struct Operands {
  Numbers a, b, c;
};

Product<float, float> product_of(const Call& call, Operands& x) {
  const auto matrix = [](const Numbers& data, bool across, int64_t rows, int64_t cols) {
    return Product<float, float>::Matrix{data.data(), across ? 1 : cols, across ? rows : 1};
  };
  return {matrix(x.a, call.trans_a, call.m, call.k),
          matrix(x.b, call.trans_b, call.k, call.n),
          call.m,
          call.n,
          call.k,
          1.0F,
          call.accumulate,
          x.c.data(),
          call.n};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One body or library: runs a call, beside its own probe.
struct Body {
  std::string name;
  double (*probe)();
  const Products* products;  // or
  Sgemm library;
  double flops = 0, seconds_at_peak = 0;  // over all calls: flops over the rate of a peak of 1

  void run(const Call& call, Operands& x) const {
    if (products != nullptr) return products->f32(product_of(call, x));
    constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    library(kRowMajor, call.trans_a ? kTransposed : kPlain, call.trans_b ? kTransposed : kPlain,
            size(call.m), size(call.n), size(call.k), 1.0F, x.a.data(),
            size(call.trans_a ? call.m : call.k), x.b.data(), size(call.trans_b ? call.k : call.n),
            call.accumulate ? 1.0F : 0.0F, x.c.data(), size(call.n));
  }
};

void measure(const Shape& shape, Kind kind, std::vector<Body>& bodies) {
  const Call call = call_of(shape, kind);
  Operands x{{call.m * call.k, 0.5F}, {call.k * call.n, 0.25F}, {call.m * call.n, 0.0F}};
  const int repeats = std::max(1, static_cast<int>(1e9 / call.flops()));
  constexpr int kRounds = 7;
  std::string line = fmt::format("{:<6}{:<12}{:>6} x{:>6} x{:>6}", shape.run,
                                 kNames[static_cast<int>(kind)], call.m, call.n, call.k);
  for (Body& body : bodies) body.run(call, x);
  std::vector<std::vector<double>> ratios(bodies.size()), rates(bodies.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      const double before = bodies[i].probe();
      const double begin = now();
      for (int r = 0; r < repeats; ++r) bodies[i].run(call, x);
      const double rate = call.flops() * repeats / (now() - begin) / 1e9;
      ratios[i].push_back(2 * rate / (before + bodies[i].probe()));
      rates[i].push_back(rate);
    }
  }
  for (size_t i = 0; i < bodies.size(); ++i) {
    const double ratio = median(ratios[i]);
    line += fmt::format("   {:5.0f} {:4.2f}", median(rates[i]), ratio);
    bodies[i].flops += call.flops();
    bodies[i].seconds_at_peak += call.flops() / ratio;
  }
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// GFLOP/s of the tiles alone: four sums, operands in tiles.
double probe_tiles() {
  struct alignas(64) Configuration {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static const Configuration configuration;
  constexpr int64_t kRounds = 20'000;
  int64_t left = kRounds;
  const double begin = now();
  asm volatile(
      "ldtilecfg %1\n"
      "1:\n tdpbf16ps %%tmm6,%%tmm4,%%tmm0\n tdpbf16ps %%tmm6,%%tmm5,%%tmm2\n"
      "tdpbf16ps %%tmm7,%%tmm4,%%tmm1\n tdpbf16ps %%tmm7,%%tmm5,%%tmm3\n"
      "dec %0\n jne 1b\n tilerelease\n"
      : "+r"(left)
      : "m"(configuration)
      : "cc");
  return static_cast<double>(kRounds) * 4 * 2 * 16 * 16 * 32 / (now() - begin) / 1e9;
}

using NarrowProduct = void (*)(const Product<BFloat16, float>&);

// Products of bf16 beside those of f32, in turn.
void measure_narrow(const Shape& shape, Kind kind, NarrowProduct pairs, NarrowProduct tiles) {
  const Call call = call_of(shape, kind);
  Operands x{{call.m * call.k, 0.5F}, {call.k * call.n, 0.25F}, {call.m * call.n, 0.0F}};
  const std::vector<BFloat16> a(static_cast<size_t>(call.m * call.k), BFloat16(0.5F)),
      b(static_cast<size_t>(call.k * call.n), BFloat16(0.25F));
  const Product<float, float> wide = product_of(call, x);
  const Product<BFloat16, float> narrow{{a.data(), wide.a.row, wide.a.col},
                                        {b.data(), wide.b.row, wide.b.col},
                                        call.m,
                                        call.n,
                                        call.k,
                                        1.0F,
                                        call.accumulate,
                                        x.c.data(),
                                        call.n};
  const int repeats = std::max(1, static_cast<int>(2e9 / call.flops()));
  const auto rate = [&](const auto& multiply) {
    const double begin = now();
    for (int r = 0; r < repeats; ++r) multiply();
    return call.flops() * repeats / (now() - begin) / 1e9;
  };
  std::vector<double> f32, of_pairs, of_tiles, peak;
  for (int round = 0; round < 7; ++round) {
    f32.push_back(rate([&] { kernels::cpu::levels::kProductsV4.f32(wide); }));
    of_pairs.push_back(rate([&] { pairs(narrow); }));
    if (tiles == nullptr) continue;
    of_tiles.push_back(rate([&] { tiles(narrow); }));
    peak.push_back(probe_tiles());
  }
  fmt::print("{:<6}{:<12}{:>6} x{:>6} x{:>6}{:>8.0f}{:>8.0f}", shape.run,
             kNames[static_cast<int>(kind)], call.m, call.n, call.k, median(f32), median(of_pairs));
  if (tiles != nullptr) fmt::print("{:>8.0f}{:>8.0f}", median(of_tiles), median(peak));
  fmt::print("\n");
  std::fflush(stdout);
}

int run_narrow(const std::string& which) {
  const CpuTiles& tiles = cpu_tiles();
  if (!tiles.usable) fmt::print("no products on tiles: {}\n", tiles.why_not);
  if (highest_cpu_level() < CpuLevel::kV4Bf16) {
    fmt::print("no products of pairs: this CPU has no AVX512_BF16\n");
    return 0;
  }
  fmt::print("{:<40} f32 v4 v4-bf16  v4-amx    peak   (GFLOP/s)\n",
             "run   product           m x     n x     k");
  for (const Shape& shape : kShapes) {
    if (which != "all" && which != shape.run) continue;
    for (const Kind kind : {Kind::kForward, Kind::kInputGrad, Kind::kWeightGrad}) {
      measure_narrow(shape, kind, kernels::cpu::levels::kProductsV4Bf16.bf16,
                     tiles.usable ? kernels::cpu::levels::kProductsV4Amx.bf16 : nullptr);
    }
  }
  return 0;
}

int run(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "all";
  if (which == "bf16") return run_narrow(argc > 2 ? argv[2] : "all");
  std::vector<Body> bodies{{"v3", probe_v3, &kernels::cpu::levels::kProductsV3, nullptr}};
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  if (wide) bodies.push_back({"v4", probe_v4, &kernels::cpu::levels::kProductsV4, nullptr});
  if (argc > 2) {
    bodies.push_back({"library", wide ? probe_v4 : probe_v3, nullptr, load_library(argv[2])});
  }
  std::string head = fmt::format("{:<40}", "run   product           m x     n x     k");
  for (const Body& body : bodies) head += fmt::format("   {:>10}", body.name + ", of");
  fmt::print("{}   (GFLOP/s and part of the peak beside it)\n", head);
  for (const Shape& shape : kShapes) {
    if (which != "all" && which != shape.run) continue;
    for (const Kind kind : {Kind::kForward, Kind::kInputGrad, Kind::kWeightGrad}) {
      measure(shape, kind, bodies);
    }
  }
  if (which == "small") {
    for (const Shape& shape : kSmall) measure(shape, Kind::kInputGrad, bodies);
  }
  for (const Body& body : bodies) {
    fmt::print("{:<8} {:.3f} of the peak over all of these\n", body.name,
               body.flops / body.seconds_at_peak);
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
