#include <algorithm>
#include <cstring>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/map.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kGrain = 8192;

// Rounds through f32 on the way to a narrow type.
template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return narrow<To>(static_cast<Acc<To>>(widen(value)));
  }
}

// The unsigned integer of an element's size, and its exponent bits, all set in NaN and Inf.
template <typename T>
struct Bits;
template <>
struct Bits<double> {
  using type = uint64_t;
  static constexpr type kExponent = 0x7ff0000000000000ULL;
};
template <>
struct Bits<float> {
  using type = uint32_t;
  static constexpr type kExponent = 0x7f800000U;
};
template <>
struct Bits<BFloat16> {
  using type = uint16_t;
  static constexpr type kExponent = 0x7f80U;
};
template <>
struct Bits<Float16> {
  using type = uint16_t;
  static constexpr type kExponent = 0x7c00U;
};

template <typename T>
int64_t first_nonfinite_in(const T* data, int64_t count) {
  using U = typename Bits<T>::type;
  constexpr int64_t kBlock = 1024;
  const auto is_bad = [&](int64_t i) {
    return (std::bit_cast<U>(data[i]) & Bits<T>::kExponent) == Bits<T>::kExponent;
  };
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    U bad = 0;
    for (int64_t i = begin; i < end; ++i) bad = static_cast<U>(bad | static_cast<U>(is_bad(i)));
    if (bad == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (is_bad(i)) return i;
    }
  }
  return -1;
}

}  // namespace

void add(Context& ctx, const Tensor& a, const Tensor& b, Tensor& y) {
  const int64_t count = y.numel();
  dispatch("add", y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto sum = [](Acc<T> left, Acc<T> right) { return left + right; };
    map(ctx, count, kGrain, y.as<T>(), sum, a.as<const T>(), b.as<const T>());
  });
}

void fill_zero(Context& ctx, Tensor& x) {
  const int64_t bytes = x.bytes();
  ctx.workers.parallel_for(bytes, 4 * kGrain, [&](int64_t begin, int64_t end) {
    std::memset(x.as<std::byte>() + begin, 0, static_cast<size_t>(end - begin));
  });
}

void copy(Context& ctx, const Tensor& x, Tensor& y) {
  constexpr const char* kOp = "copy";
  const int64_t count = x.numel();
  if (x.dtype == y.dtype) {
    ctx.workers.parallel_for(x.bytes(), 4 * kGrain, [&](int64_t begin, int64_t end) {
      std::memmove(y.as<std::byte>() + begin, x.as<std::byte>() + begin,
                   static_cast<size_t>(end - begin));
    });
    return;
  }
  dispatch(kOp, x.dtype, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    dispatch(kOp, y.dtype, [&](auto to_tag) {
      using To = typename decltype(to_tag)::type;
      ctx.workers.parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
        const From* from = x.as<From>();
        To* to = y.as<To>();
        for (int64_t i = begin; i < end; ++i) to[i] = convert<To>(from[i]);
      });
    });
  });
}

void accumulate_into(Context& ctx, const Tensor& x, Tensor& y) {
  const int64_t count = x.numel();
  dispatch("accumulate_into", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_gradient<T>(y, [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      ctx.workers.parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
        const T* from = x.as<T>();
        G* to = y.as<G>();
        for (int64_t i = begin; i < end; ++i) {
          to[i] = narrow<G>(widen(to[i]) + widen(from[i]));
        }
      });
    });
  });
}

void scale(Context& ctx, Tensor& x, double factor) {
  const int64_t count = x.numel();
  dispatch("scale", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto by = static_cast<Acc<T>>(factor);
    const auto product = [by](Acc<T> value) { return value * by; };
    map(ctx, count, kGrain, x.as<T>(), product, x.as<const T>());
  });
}

int64_t first_nonfinite(const Tensor& x) {
  if (x.dtype == DType::kI32 || x.dtype == DType::kU8) return -1;
  int64_t found = -1;
  dispatch("first_nonfinite", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    found = first_nonfinite_in(x.as<T>(), x.numel());
  });
  return found;
}

}  // namespace tessera::kernels::cpu
