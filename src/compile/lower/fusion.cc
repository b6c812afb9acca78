#include "compile/lower/fusion.h"

namespace tessera {

bool Fusion::touched_between(size_t first, size_t last, BufferId result, BufferId source) const {
  for (size_t i = first + 1; i < last; ++i) {
    if (gone_[i]) continue;
    for (const BufferId in : list_[i].inputs) {
      if (overlap(in, result)) return true;
    }
    for (const BufferId out : list_[i].outputs) {
      if (overlap(out, result) || overlap(out, source)) return true;
    }
  }
  return false;
}

bool Fusion::overlap(BufferId a, BufferId b) const {
  const Region& left = region_of_[static_cast<size_t>(a)];
  const Region& right = region_of_[static_cast<size_t>(b)];
  if (left.storage != right.storage || left.instance != right.instance) return false;
  const Buffer& x = program_.buffer(a);
  const Buffer& y = program_.buffer(b);
  return x.offset < y.offset + y.bytes() && y.offset < x.offset + x.bytes();
}

void Fusion::drop_gone() {
  size_t kept = 0;
  for (size_t i = 0; i < list_.size(); ++i) {
    if (gone_[i]) continue;
    if (kept != i) {
      list_[kept] = std::move(list_[i]);
      places_[kept] = places_[i];
    }
    ++kept;
  }
  list_.resize(kept);
  places_.resize(kept);
}

}  // namespace tessera
