#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/map.cuh"

namespace tessera::kernels::cuda {
namespace {

inline constexpr int kHeadsAtOnce = 4;
inline constexpr int kCopiesAtOnce = 2 * kHeadsAtOnce;

// A thread has one row and, of its angles, N: it turns the pairs (d, d + D/2) of those in every
// slots-th head, kHeadsAtOnce of them. The threads after those copy packs of the row's rest.
template <typename T>
struct Rope {
  using A = Acc<T>;
  const T* x;
  const A *cos, *sin;
  T* y;
  int64_t width, half, heads;
  A direction;
  int64_t slots, turning, copying;  // threads of a row: turning = slots * half / N
  Divider row_threads, half_pieces, seq_len;
};

template <typename T, int N>
__device__ inline void turn(const Rope<T>& r, const Place& place) {
  using A = Acc<T>;
  const Place slot = place_of(place.column, r.half_pieces);
  const int64_t d = slot.column * N;
  const int64_t angle = place_of(place.row, r.seq_len).column * r.half + d;
  const int64_t at = place.row * r.width + d;
  Packed<T, N> first[kHeadsAtOnce], second[kHeadsAtOnce];
#pragma unroll
  for (int k = 0; k < kHeadsAtOnce; ++k) {
    const int64_t head = slot.row + k * r.slots;
    if (head >= r.heads) break;
    first[k] = load_packed<N>(r.x + at + head * 2 * r.half);
    second[k] = load_packed<N>(r.x + at + head * 2 * r.half + r.half);
  }
  const Values<A, N> cos = load_values<N>(r.cos + angle), sin = load_values<N>(r.sin + angle);
#pragma unroll
  for (int k = 0; k < kHeadsAtOnce; ++k) {
    const int64_t head = slot.row + k * r.slots;
    if (head >= r.heads) break;
    const Pack<T, N> one = unpack(first[k]), other = unpack(second[k]);
    A low[N], high[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const A a = widen(one.at[j]), b = widen(other.at[j]), turned = r.direction * sin.at[j];
      low[j] = a * cos.at[j] - b * turned;
      high[j] = b * cos.at[j] + a * turned;
    }
    store_pack(r.y + at + head * 2 * r.half, narrow_pack<T>(low));
    store_pack(r.y + at + head * 2 * r.half + r.half, narrow_pack<T>(high));
  }
}

template <typename T, int N>
__device__ inline void copy_rest(const Rope<T>& r, const Place& place) {
  const int64_t end = (place.row + 1) * r.width;
  const int64_t rest = place.row * r.width + r.heads * 2 * r.half;
  Packed<T, N> packs[kCopiesAtOnce];
#pragma unroll
  for (int k = 0; k < kCopiesAtOnce; ++k) {
    const int64_t at = rest + (place.column - r.turning + k * r.copying) * N;
    if (at < end) packs[k] = load_packed<N>(r.x + at);
  }
#pragma unroll
  for (int k = 0; k < kCopiesAtOnce; ++k) {
    const int64_t at = rest + (place.column - r.turning + k * r.copying) * N;
    if (at < end) store_pack(r.y + at, unpack(packs[k]));
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kMapThreads) rope_kernel(int64_t threads, Rope<T> r) {
  const int64_t i = blockIdx.x * int64_t{kMapThreads} + threadIdx.x;
  if (i >= threads) return;
  const Place place = place_of(i, r.row_threads);
  if (place.column < r.turning) {
    turn<T, N>(r, place);
  } else {
    copy_rest<T, N>(r, place);
  }
}

template <typename T, int N>
void run(const Gpu& gpu, const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y,
         int64_t num_heads, bool inverse) {
  using A = Acc<T>;
  const int64_t width = x.dim(1), half = cos.dim(1), rest = width - num_heads * 2 * half;
  const int64_t slots = ceil_div(num_heads, kHeadsAtOnce), turning = slots * (half / N);
  const int64_t copying = x.data == y.data ? 0 : ceil_div(rest / N, kCopiesAtOnce);
  const int64_t threads = x.dim(0) * (turning + copying);
  if (threads == 0) return;
  const Rope<T> rope{x.as<T>(),
                     cos.as<A>(),
                     sin.as<A>(),
                     y.as<T>(),
                     width,
                     half,
                     num_heads,
                     inverse ? A{-1} : A{1},
                     slots,
                     turning,
                     copying,
                     Divider(turning + copying),
                     Divider(std::max<int64_t>(1, half / N)),
                     Divider(cos.dim(0))};
  const auto blocks = static_cast<unsigned>(ceil_div(threads, kMapThreads));
  rope_kernel<T, N><<<blocks, kMapThreads, 0, gpu.stream()>>>(threads, rope);
  check_launch("rope");
}

}  // namespace

void rope(Context& ctx, const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y,
          int64_t num_heads, bool inverse) {
  dispatch("rope", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool aligned = packable<T>(x.dim(1), x.as<T>(), y.as<T>(), cos.as<T>(), sin.as<T>());
    if (aligned && cos.dim(1) % kPack<T> == 0) {
      run<T, kPack<T>>(*ctx.gpu, x, cos, sin, y, num_heads, inverse);
    } else {
      run<T, 1>(*ctx.gpu, x, cos, sin, y, num_heads, inverse);
    }
  });
}

}  // namespace tessera::kernels::cuda
