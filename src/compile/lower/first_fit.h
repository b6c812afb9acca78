// Storages of one block of memory, each at the lowest offset at which it meets nobody that is alive
// at the same time. Those that were placed before are kept in short runs with a summary each, so
// that most of them are passed over without a look: a step of many layers has many thousands.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

// What is alive from `first` to `last`, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
};

class FirstFit {
 public:
  // Lowest offset for so many bytes, which may be 0.
  [[nodiscard]] int64_t place_for(Lifetime alive, int64_t bytes) const;
  void add(Lifetime alive, int64_t offset, int64_t bytes);
  // The end of the highest one.
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  // Runs and storages that searches have looked at so far.
  [[nodiscard]] int64_t looked_at() const { return looked_at_; }

 private:
  struct Placed {
    int64_t offset = 0, end = 0;
    Lifetime alive;
  };
  // Neighbours by offset, and by their beginning where offsets are equal.
  struct Run {
    std::vector<Placed> placed;
    int64_t max_end = 0;
    int64_t max_gap = 0;  // between one of them and all before it
    Lifetime any;         // from the first beginning to the last end
    Lifetime all;         // the last beginning and the first end
    void summarize();
  };
  // Moves `at` up past those of the run that are in the way; true: there is room below the next.
  [[nodiscard]] bool search(const Run& run, Lifetime alive, int64_t bytes, int64_t& at) const;

  std::vector<Run> runs_;  // by offset
  int64_t bytes_ = 0;
  mutable int64_t looked_at_ = 0;
};

}  // namespace tessera
