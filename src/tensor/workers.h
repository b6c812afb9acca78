// The compute threads of one rank: a fixed team that runs one parallel region at a time.
//
// run(f) calls f(i) for i in [0, size()) at once on the team, the caller being member 0, and
// returns when all are done. Nothing is allocated per region. Not re-entrant, and only one thread
// may call run(). Members spin briefly, then yield, then sleep on a futex, so that an idle team
// costs nothing and several ranks may share few cores.
#pragma once

#include <cstdint>
#include <memory>

#include "base/rounding.h"

namespace tessera {

class Workers {
 public:
  explicit Workers(int num_threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  [[nodiscard]] int size() const { return num_threads_; }

  // f is called as f(int member); exceptions in it are a bug and end the process.
  template <typename F>
  void run(const F& f) {
    run_erased([](const void* context, int member) { (*static_cast<const F*>(context))(member); },
               &f);
  }

  // Splits [0, count) into size() contiguous ranges, each start a multiple of `grain`, and calls
  // f(int64_t begin, int64_t end) for the non-empty ones. The split depends on nothing but
  // (count, grain, size()), so results repeat bit for bit.
  template <typename F>
  void parallel_for(int64_t count, int64_t grain, const F& f) {
    const int64_t blocks = ceil_div(count, grain);
    if (num_threads_ == 1 || blocks <= 1) {
      if (count > 0) f(int64_t{0}, count);
      return;
    }
    run([&](int member) {
      const int64_t begin = blocks * member / num_threads_ * grain;
      int64_t end = blocks * (member + 1) / num_threads_ * grain;
      if (end > count) end = count;
      if (begin < end) f(begin, end);
    });
  }

 private:
  using Thunk = void (*)(const void*, int);
  void run_erased(Thunk thunk, const void* context) noexcept;

  struct Team;
  int num_threads_;
  std::unique_ptr<Team> team_;
};

}  // namespace tessera
