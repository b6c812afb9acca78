// What rendering a template may cost. Templates come with models that strangers publish: a loop
// that never ends, or text that doubles with every turn, must end in a message.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

struct TemplateLimits {
  int64_t source_bytes = int64_t{1} << 20;   // of the template itself
  int64_t steps = 10'000'000;                // nodes evaluated and items looked at
  int64_t made_bytes = int64_t{256} << 20;   // text and lists made on the way, all together
  int64_t output_bytes = int64_t{16} << 20;  // of the rendered text
  int depth = 400;                           // expressions, blocks and macros inside each other
};

}  // namespace tessera

namespace tessera::jinja {

// What is wrong, without the place: the renderer knows the line and throws ConfigError.
class TemplateFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fault(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateFault(fmt::format(format, std::forward<Args>(args)...));
}

// Counts what one rendering does. Several renderings may share one.
class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : limits_(limits) {}

  void step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) {
      fault("more than {} steps: shorten the conversation, or look for a loop that grows",
            limits_.steps);
    }
  }
  // Text or lists of so many bytes are about to be made.
  void make(size_t bytes) {
    made_ += static_cast<int64_t>(bytes);
    if (made_ > limits_.made_bytes) {
      fault(
          "more than {} bytes of text and lists were made: shorten the conversation, or look for "
          "text that grows with every turn",
          limits_.made_bytes);
    }
    step(static_cast<int64_t>(bytes / 64));
  }
  [[nodiscard]] const TemplateLimits& limits() const { return limits_; }

 private:
  TemplateLimits limits_;
  int64_t steps_ = 0;
  int64_t made_ = 0;
};

}  // namespace tessera::jinja
