#include "watch/curve.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

Curve::Curve(int64_t most) : most_(most) { TESSERA_CHECK(most >= 2, "a curve of {} points", most); }

void Curve::Group::add(const Group& next) {
  if (count == 0) {
    *this = next;
    return;
  }
  x = next.x;
  sum += next.sum;
  low = std::min(low, next.low);
  high = std::max(high, next.high);
  count += next.count;
}

void Curve::halve() {
  std::vector<Group> pairs;
  pairs.reserve(full_.size() / 2 + 1);
  for (size_t i = 0; i + 1 < full_.size(); i += 2) {
    pairs.push_back(full_[i]);
    pairs.back().add(full_[i + 1]);
  }
  if (full_.size() % 2 != 0) filling_ = full_.back();
  full_ = std::move(pairs);
  per_point_ *= 2;
}

void Curve::add(double x, double value) {
  ++values_;
  filling_.add({x, value, value, value, 1});
  if (filling_.count < per_point_) return;
  full_.push_back(filling_);
  filling_ = {};
  if (static_cast<int64_t>(full_.size()) >= most_) halve();
}

CurvePoint Curve::point_of(const Group& group) {
  return {group.x, group.sum / static_cast<double>(group.count), group.low, group.high};
}

std::vector<CurvePoint> Curve::points() const {
  std::vector<CurvePoint> points;
  points.reserve(full_.size() + 1);
  for (const Group& group : full_) points.push_back(point_of(group));
  if (filling_.count > 0) points.push_back(point_of(filling_));
  return points;
}

double Smoother::next(double value) {
  sum_ = weight_ * sum_ + (1 - weight_) * value;
  share_ = weight_ * share_ + (1 - weight_);
  return sum_ / share_;
}

}  // namespace tessera
