// Values over the course of a run, in bounded memory however many there are.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

// Neighbouring values as one.
struct CurvePoint {
  double x = 0;  // of the last of them
  double mean = 0;
  double low = 0, high = 0;
};

// Takes values in the order of the run. Once there are more than it keeps, neighbours are put
// together: every point then stands for the same number of values (the last one for fewer).
class Curve {
 public:
  // `most`: points to keep, at least 2.
  explicit Curve(int64_t most = 4096);

  void add(double x, double value);  // both finite
  [[nodiscard]] bool empty() const { return full_.empty() && filling_.count == 0; }
  [[nodiscard]] int64_t values() const { return values_; }
  [[nodiscard]] int64_t values_per_point() const { return per_point_; }
  [[nodiscard]] std::vector<CurvePoint> points() const;

 private:
  struct Group {
    double x = 0, sum = 0, low = 0, high = 0;
    int64_t count = 0;
    void add(const Group& next);
  };
  static CurvePoint point_of(const Group& group);
  void halve();

  int64_t most_;
  int64_t per_point_ = 1;
  int64_t values_ = 0;
  std::vector<Group> full_;
  Group filling_;
};

// An average in which the past weighs `weight` (0: none, 0.99: much), free of the pull towards 0
// that the first values of such an average have.
class Smoother {
 public:
  explicit Smoother(double weight) : weight_(weight) {}
  double next(double value);

 private:
  double weight_;
  double sum_ = 0;
  double share_ = 0;  // of `sum_` that values make up
};

}  // namespace tessera
