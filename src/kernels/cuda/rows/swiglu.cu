#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/map.cuh"
#include "kernels/cuda/device/sigmoid.cuh"

namespace tessera::kernels::cuda {
namespace {

// A piece: N columns of h, and those of gate and up that they come from. F columns of h.
template <typename T, int N>
struct GateUp {
  Divider row_pieces;  // of h
  __device__ int64_t gate(int64_t i) const {
    return (i + place_of(i, row_pieces).row * pieces()) * N;
  }
  __device__ int64_t up(int64_t gate) const { return gate + pieces() * N; }
  __device__ int64_t pieces() const { return row_pieces.divisor(); }
};

template <typename T, int N>
struct Forward {
  static constexpr int kPieces = 2;
  struct Loaded {
    Pack<T, N> gate, up;
  };
  GateUp<T, N> where;
  const T* gate_up;
  T* h;

  __device__ Loaded load(int64_t i) const {
    const int64_t gate = where.gate(i);
    return {load_pack<N>(gate_up + gate), load_pack<N>(gate_up + where.up(gate))};
  }
  __device__ void store(int64_t i, const Loaded& loaded) const {
    using A = Acc<T>;
    A values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const A g = widen(loaded.gate.at[j]);
      values[j] = g * sigmoid<T>(g) * widen(loaded.up.at[j]);
    }
    store_pack(h + i * N, narrow_pack<T>(values));
  }
};

template <typename T, int N>
struct Backward {
  static constexpr int kPieces = 2;
  struct Loaded {
    Pack<T, N> dh, gate, up;
  };
  GateUp<T, N> where;
  const T *dh, *gate_up;
  T* d_gate_up;

  __device__ Loaded load(int64_t i) const {
    const int64_t gate = where.gate(i);
    return {load_pack<N>(dh + i * N), load_pack<N>(gate_up + gate),
            load_pack<N>(gate_up + where.up(gate))};
  }
  __device__ void store(int64_t i, const Loaded& loaded) const {
    using A = Acc<T>;
    A d_gate[N], d_up[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const A g = widen(loaded.gate.at[j]), d = widen(loaded.dh.at[j]);
      const A s = sigmoid<T>(g);
      d_gate[j] = d * widen(loaded.up.at[j]) * s * (A{1} + g * (A{1} - s));
      d_up[j] = d * g * s;
    }
    const int64_t gate = where.gate(i);
    store_pack(d_gate_up + gate, narrow_pack<T>(d_gate));
    store_pack(d_gate_up + where.up(gate), narrow_pack<T>(d_up));
  }
};

template <typename T, int N>
void forward(const Gpu& gpu, const Tensor& gate_up, Tensor& h) {
  if (h.numel() == 0) return;
  map_pieces("swiglu", gpu, h.numel() / N,
             Forward<T, N>{{Divider(h.dim(1) / N)}, gate_up.as<T>(), h.as<T>()});
}

template <typename T, int N>
void backward(const Gpu& gpu, const Tensor& dh, const Tensor& gate_up, Tensor& d_gate_up) {
  if (dh.numel() == 0) return;
  map_pieces(
      "swiglu_grad", gpu, dh.numel() / N,
      Backward<T, N>{{Divider(dh.dim(1) / N)}, dh.as<T>(), gate_up.as<T>(), d_gate_up.as<T>()});
}

}  // namespace

void swiglu(Context& ctx, const Tensor& gate_up, Tensor& h) {
  dispatch("swiglu", h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(h.dim(1), gate_up.as<T>(), h.as<T>())) {
      forward<T, kPack<T>>(*ctx.gpu, gate_up, h);
    } else {
      forward<T, 1>(*ctx.gpu, gate_up, h);
    }
  });
}

void swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, Tensor& d_gate_up) {
  dispatch("swiglu_grad", dh.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(dh.dim(1), dh.as<T>(), gate_up.as<T>(), d_gate_up.as<T>())) {
      backward<T, kPack<T>>(*ctx.gpu, dh, gate_up, d_gate_up);
    } else {
      backward<T, 1>(*ctx.gpu, dh, gate_up, d_gate_up);
    }
  });
}

}  // namespace tessera::kernels::cuda
