// Texts cut into frames in every way, and the logits of all their tokens.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "serve/frame.h"
#include "serve/ranks/local_frames.h"
#include "serve/testing/served_model.h"

namespace tessera::serve::testing {

// A plan for a test: small pages, as many as it needs.
struct FeedOptions {
  int64_t tp = 1, pp = 1, ep = 1;
  DType dtype = DType::kF64;
  int64_t threads = 1;
  int64_t page_size = 16;
  int64_t max_context = 128;
  int64_t max_tokens = 32;
  int64_t max_sequences = 8;
  int64_t num_pages = 0;  // 0: for 8 sequences
};
ServePlan test_plan(const ServedModel& model, const FeedOptions& options);
std::unique_ptr<LocalFrameRunner> test_runner(const ServedModel& model, const FeedOptions& options);

// How many tokens of a text come next, of those that are left; at most as many as a frame has room.
using ChunkSize = std::function<int64_t(int64_t left)>;

// Runs texts through frames and collects the logits of every token.
class TextFeeder {
 public:
  // `seed` decides the order of pages and which texts are in a frame.
  TextFeeder(LocalFrameRunner& runner, uint64_t seed);

  // `together`: texts in one frame at most.
  std::vector<Rows> feed(const std::vector<Text>& texts, const ChunkSize& chunk,
                         int64_t together = 1 << 20);
  // Called with every frame before it starts: tests change it.
  std::function<void(Frame&)> on_frame;
  [[nodiscard]] int64_t frames() const { return frames_; }

 private:
  struct Progress {
    int64_t done = 0;  // tokens that are in frames
    std::vector<int32_t> pages;
  };
  struct Row {
    size_t text;
  };

  Frame next_frame(const std::vector<Text>& texts, const ChunkSize& chunk, int64_t together);
  void take(std::vector<Rows>& logits);

  LocalFrameRunner& runner_;
  std::mt19937_64 random_;
  std::vector<int32_t> free_pages_;
  std::vector<Progress> progress_;
  std::deque<std::vector<Row>> under_way_;
  int64_t frames_ = 0;
};

// The largest difference, relative to the largest of the row; infinite where one is NaN.
double difference(const std::vector<Rows>& a, const std::vector<Rows>& b);

}  // namespace tessera::serve::testing
