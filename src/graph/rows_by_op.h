// Tables with one row per op, put together and proved complete at compile time.
#pragma once

#include <array>
#include <span>
#include <stdexcept>
#include <utility>

#include "graph/op.h"

namespace tessera {

// A field that every row must give.
template <class T>
class Given {
 public:
  constexpr Given(T value) : value_(value) {}  // implicit both ways: it stands for a T
  constexpr operator T() const { return value_; }

 private:
  T value_;
};

// The rows of all families in the order of OpKind. Throws, which at compile time is an error, when
// one of the first N ops has no row or two.
template <size_t N, class Row, size_t... Sizes>
constexpr std::array<Row, N> rows_by_op(const Row (&... families)[Sizes]) {
  const auto find = [&](size_t op) {
    const Row* found = nullptr;
    const auto look = [&](std::span<const Row> rows) {
      for (const Row& row : rows) {
        if (index_of(row.kind) != op) continue;
        if (found != nullptr) throw std::logic_error("an op has two rows");
        found = &row;
      }
    };
    (look(families), ...);
    if (found == nullptr) throw std::logic_error("an op has no row");
    return *found;
  };
  return [&]<size_t... Ops>(std::index_sequence<Ops...>) {
    return std::array<Row, N>{find(Ops)...};
  }
  (std::make_index_sequence<N>());
}

}  // namespace tessera
