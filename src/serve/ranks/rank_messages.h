// What the process that serves and its ranks tell each other beside frames.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "serve/frame.h"
#include "serve/ranks/frame_times.h"

namespace tessera::serve {

// What a rank is for.
struct RankTask {
  std::string text;    // what its worker is made from (serve/ranks/rank_worker.h)
  ServeShape shape;    // of all frames
  bool times = false;  // whether it is to tell when it computed each frame
  std::chrono::milliseconds timeout{60'000};  // longest wait for another rank
};

std::vector<std::byte> bytes_of(const RankTask& task);
std::vector<std::byte> bytes_of(const FrameTimes& times);
std::vector<std::byte> bytes_of(const std::string& text);

// Each throws Error where the bytes are something else.
RankTask task_from(std::span<const std::byte> bytes);
FrameTimes times_from(std::span<const std::byte> bytes);
// At most `most` bytes of the text, with nothing that a terminal would act on.
std::string text_from(std::span<const std::byte> bytes, size_t most = 200);

}  // namespace tessera::serve
