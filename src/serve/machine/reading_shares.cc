#include "serve/machine/reading_shares.h"

#include <algorithm>

#include "base/workspace.h"
#include "train/machine/probe_programs.h"

namespace tessera::serve {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr double kNearBytes = 8.0 * kMiB;
// MiB, half of one first.
constexpr int64_t kHalfMiBs[] = {1,  2,  4,  6,  8,   12,  16,  24,  32,  40,  48,
                                 56, 64, 80, 96, 128, 192, 256, 384, 512, 1024};

// Products of one token with as many weights: nothing is done with a byte but reading it.
Program reading_work(int threads, int64_t bytes) {
  constexpr int64_t kColumns = 1024;
  const int64_t matrix = std::clamp(bytes / 4, kMiB / 4, 4 * kMiB);
  const int64_t rows = matrix / (kColumns * 4);
  Program program =
      empty_program(Mesh(), threads, workspace::serve_linear(DType::kF32, 1, kColumns, 1, threads));
  const BufferId x = add_buffer(program, "x", DType::kF32, {1, kColumns});
  const BufferId y = add_buffer(program, "y", DType::kF32, {1, rows});
  for (int64_t i = 0; i < bytes / matrix; ++i) {
    Instruction product;
    product.op = OpKind::kServeLinear;
    product.name = "product";
    product.inputs = {x, add_buffer(program, "w", DType::kF32, {rows, kColumns})};
    product.outputs = {y};
    program.instructions.push_back(std::move(product));
  }
  return program;
}

}  // namespace

ReadingShares reading_shares(int threads, const std::vector<std::pair<double, double>>& seconds,
                             double near_bytes) {
  const double least = seconds.front().second;
  double near = least, most = least;
  for (const auto& [bytes, each] : seconds) {
    if (bytes <= near_bytes) near = std::max(near, each);
    most = std::max(most, each);
  }
  const auto share = [](double value, double from, double to) {
    return to > from ? std::clamp((value - from) / (to - from), 0.0, 1.0) : 0.0;
  };
  ReadingShares result{threads, {}};
  ReadingShare last;
  for (const auto& [bytes, each] : seconds) {
    // More bytes are kept no better: what says so was disturbed.
    const double mid = bytes > near_bytes ? 1 : share(each, least, near);
    const double far = bytes > near_bytes ? share(each, near, most) : 0;
    last = {bytes, std::max(last.mid, mid), std::max(last.far, far)};
    result.points.push_back(last);
  }
  return result;
}

ReadingShares measure_reading(int threads, bool quick) {
  std::vector<std::pair<double, double>> seconds;
  for (const int64_t halves : kHalfMiBs) {
    if (quick && halves > 32) break;
    const int64_t bytes = halves * kMiB / 2;
    const Program work = reading_work(threads, bytes);
    // A large one is long enough to say it in fewer runs.
    const int64_t repeats = std::clamp<int64_t>(256 * kMiB / bytes, 5, quick ? 9 : 65);
    const double whole = time_step(probe_step(TrainDevice::kCpu, Mesh()), work, repeats);
    seconds.emplace_back(static_cast<double>(bytes), whole / static_cast<double>(bytes));
  }
  return reading_shares(threads, seconds, kNearBytes);
}

}  // namespace tessera::serve
