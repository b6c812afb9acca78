#include "launch/oom_score.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace tessera {
namespace {

constexpr const char* kFile = "/proc/self/oom_score_adj";

int current_score() noexcept {
  std::array<char, 16> text{};
  const int fd = ::open(kFile, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
  int score = 0;
  if (size > 0) std::from_chars(text.data(), text.data() + size, score);
  return score;
}

}  // namespace

void raise_oom_score(int score) noexcept {
  if (current_score() >= score) return;
  std::array<char, 16> text{};
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), score);
  const int fd = ::open(kFile, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written =
      ::write(fd, text.data(), static_cast<size_t>(end.ptr - text.data()));
  ::close(fd);
}

}  // namespace tessera
