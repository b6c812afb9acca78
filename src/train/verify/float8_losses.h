// What 8 bits could not hold of the factors of products: values beyond the largest, and values that
// became zero, by tensor.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/executor.h"

namespace tessera {

struct Float8Losses {
  int64_t values = 0;
  int64_t clipped = 0, zeroed = 0;  // zeroed: values that were none
  int64_t first_clipped = 0;        // step; 0: never

  [[nodiscard]] double share_zeroed() const {
    return values == 0 ? 0 : static_cast<double>(zeroed) / static_cast<double>(values);
  }
};

class Float8LossMeter {
 public:
  // Looks at every quantised matrix of the step that `executor` runs next.
  void watch(Executor& executor, int64_t step);

  [[nodiscard]] const std::map<std::string, Float8Losses>& by_tensor() const { return losses_; }
  // What was clipped, with its step, and the tensors that lost most to zero.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  std::map<std::string, Float8Losses> losses_;
  std::mutex mutex_;  // ranks are threads
};

}  // namespace tessera
