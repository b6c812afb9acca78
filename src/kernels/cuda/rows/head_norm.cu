#include "kernels/cuda/bodies.h"
#include "kernels/cuda/rows/rms_rows.cuh"

namespace tessera::kernels::cuda {
namespace {

// Units of a token's row: its heads of `dim` columns, then the columns that are copied, in pieces
// of as many. Every unit has a group of threads.
struct Units {
  int64_t units, width, dim, heads;
  Divider units_per_row;

  Units(const Tensor& x, const Tensor& w, const Tensor& rstd, bool in_place)
      : units(0), width(x.dim(1)), dim(w.numel()), heads(rstd.dim(1)), units_per_row(1) {
    const int64_t rest = in_place ? 0 : width - heads * dim;
    const int64_t per_row = heads + (rest > 0 ? ceil_div(rest, dim) : 0);
    units = x.dim(0) * per_row;
    units_per_row = Divider(std::max<int64_t>(1, per_row));
  }
};

struct Unit {
  int64_t at;    // its first element
  int64_t head;  // of all tokens' heads; -1: it is copied
  int64_t columns;
};
__device__ inline Unit unit_of(int64_t i, const Units& units) {
  const Place place = place_of(i, units.units_per_row);
  const int64_t first = place.column * units.dim, at = place.row * units.width + first;
  if (place.column < units.heads) {
    return {at, place.row * units.heads + place.column, units.dim};
  }
  return {at, -1, std::min<int64_t>(units.dim, units.width - first)};
}

template <typename Shape>
__device__ inline void copy_unit(int packs, const typename Shape::T* from, typename Shape::T* to) {
  Shape::for_each_pack(packs, [&](int, int c) {
    const int64_t at = static_cast<int64_t>(c) * Shape::kN;
    store_pack(to + at, load_pack<Shape::kN>(from + at));
  });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    forward_kernel(Units units, const typename Shape::T* x_TW, const typename Shape::T* w_D,
                   typename Shape::T* y_TW, Acc<typename Shape::T>* rstd,
                   Acc<typename Shape::T> eps) {
  if (Shape::row() >= units.units) return;
  const Unit unit = unit_of(Shape::row(), units);
  const int packs = static_cast<int>(unit.columns / Shape::kN);
  if (unit.head < 0) {
    copy_unit<Shape>(packs, x_TW + unit.at, y_TW + unit.at);
    return;
  }
  Row<Shape> x(x_TW + unit.at);
  const WeightRow<Shape> w(w_D);
  Shape::for_each_pack(packs, [&](int k, int c) { x.read(k, c); });
  const auto scale = normalise_rms_row(packs, x, w, eps, y_TW + unit.at);
  if (Shape::lane() == 0) rstd[unit.head] = scale;
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    backward_kernel(Units units, const typename Shape::T* dy_TW, const typename Shape::T* x_TW,
                    const typename Shape::T* w_D, const Acc<typename Shape::T>* rstd,
                    typename Shape::T* dx_TW) {
  if (Shape::row() >= units.units) return;
  const Unit unit = unit_of(Shape::row(), units);
  const int packs = static_cast<int>(unit.columns / Shape::kN);
  if (unit.head < 0) {
    copy_unit<Shape>(packs, dy_TW + unit.at, dx_TW + unit.at);
    return;
  }
  Row<Shape> dy(dy_TW + unit.at), x(x_TW + unit.at);
  const WeightRow<Shape> w(w_D);
  Shape::for_each_pack(packs, [&](int k, int c) {
    dy.read(k, c);
    x.read(k, c);
  });
  rms_row_grad(packs, dy, x, w, rstd[unit.head], dy, /*has_residual=*/false, dx_TW + unit.at);
}

// Heads of up to 16 packs by 8 threads, longer ones by a warp. Every unit begins with a whole pack
// if the head and the row are whole packs.
template <typename T, typename F>
void with_head_shape(int64_t width, int64_t dim, bool aligned, const F& f) {
  constexpr int kN = kPack<T>;
  if (!aligned || width % kN != 0 || dim % kN != 0) return f(RowShape<T, 1, 32, 0>{});
  if (dim / kN <= 16) return f(RowShape<T, kN, 8, 2>{});
  return f(RowShape<T, kN, 32, 0>{});
}

// Rows are the heads of all tokens.
template <typename T, int N>
struct WeightTerms : RmsWeightTerms<T, N> {
  using Loaded = typename RmsWeightTerms<T, N>::Loaded;
  const T *dy, *x;
  const Acc<T>* rstd;
  int64_t width, dim;
  Divider heads;

  __device__ Loaded load(int64_t row, int64_t column) const {
    const Place place = place_of(row, heads);
    const int64_t at = place.row * width + place.column * dim + column;
    return {load_packed<N>(dy + at), load_packed<N>(x + at), rstd[row]};
  }
};

template <typename T, int N>
void sum_weight_terms(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                      Tensor& dw, bool accumulate) {
  using A = Acc<T>;
  const int64_t heads = rstd.dim(1), dim = dw.numel();
  const WeightTerms<T, N> terms{
      {}, dy.as<T>(), x.as<T>(), rstd.as<A>(), x.dim(1), dim, Divider(std::max<int64_t>(1, heads))};
  column_sums<T, N>("head_norm_dw", ctx, x.dim(0) * heads, dim, terms, std::array{dw}, accumulate);
}

}  // namespace

void head_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd,
               double eps) {
  const Units units(x, w, rstd, x.data == y.data);
  if (units.units == 0) return;
  dispatch("head_norm", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const bool aligned = packable<T>(0, x.as<T>(), w.as<T>(), y.as<T>());
    with_head_shape<T>(units.width, units.dim, aligned, [&](auto shape) {
      using Shape = decltype(shape);
      forward_kernel<Shape>
          <<<blocks_for_rows<Shape>(units.units), Shape::kBlock, 0, ctx.gpu->stream()>>>(
              units, x.as<T>(), w.as<T>(), y.as<T>(), rstd.as<A>(), static_cast<A>(eps));
    });
  });
  check_launch("head_norm");
}

void head_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                  const Tensor& rstd, Tensor& dx) {
  const Units units(x, w, rstd, dy.data == dx.data);
  if (units.units == 0) return;
  dispatch("head_norm_dx", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool aligned = packable<T>(0, dy.as<T>(), x.as<T>(), w.as<T>(), dx.as<T>());
    with_head_shape<T>(units.width, units.dim, aligned, [&](auto shape) {
      using Shape = decltype(shape);
      backward_kernel<Shape>
          <<<blocks_for_rows<Shape>(units.units), Shape::kBlock, 0, ctx.gpu->stream()>>>(
              units, dy.as<T>(), x.as<T>(), w.as<T>(), rstd.as<Acc<T>>(), dx.as<T>());
    });
  });
  check_launch("head_norm_dx");
}

void head_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                  bool accumulate) {
  dispatch("head_norm_dw", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool aligned = packable<T>(dw.numel(), dy.as<T>(), x.as<T>());
    if (aligned && x.dim(1) % kPack<T> == 0) {
      sum_weight_terms<T, kPack<T>>(ctx, dy, x, rstd, dw, accumulate);
    } else {
      sum_weight_terms<T, 1>(ctx, dy, x, rstd, dw, accumulate);
    }
  });
}

}  // namespace tessera::kernels::cuda
