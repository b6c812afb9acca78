#include "serve/batch/frame_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/testing/damage.h"
#include "base/testing/message_of.h"

namespace tessera::serve {
namespace {

using tessera::testing::message_of;

constexpr ServeShape kShape = {.vocab = 70,
                               .max_context = 200,
                               .page_size = 16,
                               .num_pages = 40,
                               .max_tokens = 64,
                               .max_sequences = 8,
                               .max_rows = 12};

class FrameDice {
 public:
  explicit FrameDice(uint64_t seed) : engine_(seed) {}
  int32_t roll(int64_t least, int64_t most) {
    return static_cast<int32_t>(std::uniform_int_distribution<int64_t>(least, most)(engine_));
  }
  double real() { return std::uniform_real_distribution<double>(-3, 3)(engine_); }

  Frame frame() {
    Frame frame;
    frame.number = engine_();
    for (int32_t n = roll(1, 8); n > 0; --n) {
      FrameSequence sequence;
      sequence.num_tokens = roll(1, 8);
      sequence.cached = roll(0, 150);
      const int64_t pages = (sequence.num_tokens + sequence.cached + 15) / 16;
      for (int64_t i = 0; i < pages; ++i) sequence.pages.push_back(roll(0, 39));
      for (int32_t i = 0; i < sequence.num_tokens; ++i) frame.tokens.push_back(roll(0, 69));
      frame.sequences.push_back(sequence);
    }
    for (int32_t n = roll(0, 12); n > 0; --n) frame.rows.push_back(row(frame));
    for (int32_t n = roll(0, 3); n > 0; --n) frame.copies.push_back({roll(0, 39), roll(0, 39)});
    frame.masks_follow = roll(0, 1) == 1;
    return frame;
  }

  FrameMasks masks() {
    FrameMasks masks;
    masks.number = engine_();
    masks.rows.resize(static_cast<size_t>(roll(0, 12)));
    for (auto& row : masks.rows) {
      if (roll(0, 2) > 0) row = mask();
    }
    return masks;
  }

  FrameResult result() {
    FrameResult result;
    result.number = engine_();
    for (int32_t n = roll(0, 12); n > 0; --n) {
      SampledToken sampled = {.token = roll(0, 69), .logprob = real(), .finite = roll(0, 9) > 0};
      for (int32_t i = roll(0, 5); i > 0; --i) sampled.top.push_back({roll(0, 69), real()});
      result.tokens.push_back(sampled);
    }
    return result;
  }

 private:
  FrameRow row(const Frame& frame) {
    FrameRow row;
    row.token_index = roll(0, std::ssize(frame.tokens) - 1);
    if (!frame.rows.empty() && roll(0, 1) == 0) {
      row.sampling.how = frame.rows.back().sampling.how;
    } else {
      Sampling how = {.temperature = real(),
                      .top_k = roll(0, 70),
                      .top_p = real(),
                      .min_p = real(),
                      .presence_penalty = real(),
                      .frequency_penalty = real(),
                      .repetition_penalty = real(),
                      .seed = engine_(),
                      .logprobs = roll(-1, 20)};
      for (int32_t i = roll(0, 4); i > 0; --i) how.logit_bias.emplace_back(roll(0, 69), real());
      row.sampling.how = std::make_shared<const Sampling>(how);
    }
    row.sampling.choice = static_cast<uint32_t>(roll(0, 9));
    row.sampling.position = roll(0, 100);
    for (int32_t i = roll(0, 4); i > 0; --i)
      row.sampling.counts.push_back({roll(0, 69), roll(0, 9)});
    if (roll(0, 2) == 0) row.sampling.allowed = mask();
    return row;
  }
  std::vector<uint32_t> mask() {
    std::vector<uint32_t> mask;
    for (int i = 0; i < 3; ++i) mask.push_back(static_cast<uint32_t>(engine_()));
    return mask;
  }

  std::mt19937_64 engine_;
};

void expect_equal(const Frame& a, const Frame& b) {
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.sequences.size(), b.sequences.size());
  for (size_t i = 0; i < a.sequences.size(); ++i) {
    EXPECT_EQ(a.sequences[i].num_tokens, b.sequences[i].num_tokens);
    EXPECT_EQ(a.sequences[i].cached, b.sequences[i].cached);
    EXPECT_EQ(a.sequences[i].pages, b.sequences[i].pages);
  }
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (size_t i = 0; i < a.rows.size(); ++i) {
    const RowSampling &x = a.rows[i].sampling, &y = b.rows[i].sampling;
    EXPECT_EQ(a.rows[i].token_index, b.rows[i].token_index);
    EXPECT_EQ(x.how->temperature, y.how->temperature);
    EXPECT_EQ(x.how->top_k, y.how->top_k);
    EXPECT_EQ(x.how->top_p, y.how->top_p);
    EXPECT_EQ(x.how->min_p, y.how->min_p);
    EXPECT_EQ(x.how->presence_penalty, y.how->presence_penalty);
    EXPECT_EQ(x.how->frequency_penalty, y.how->frequency_penalty);
    EXPECT_EQ(x.how->repetition_penalty, y.how->repetition_penalty);
    EXPECT_EQ(x.how->logit_bias, y.how->logit_bias);
    EXPECT_EQ(x.how->seed, y.how->seed);
    EXPECT_EQ(x.how->logprobs, y.how->logprobs);
    EXPECT_EQ(x.choice, y.choice);
    EXPECT_EQ(x.position, y.position);
    EXPECT_EQ(x.allowed, y.allowed);
    ASSERT_EQ(x.counts.size(), y.counts.size());
    for (size_t c = 0; c < x.counts.size(); ++c) {
      EXPECT_EQ(x.counts[c].token, y.counts[c].token);
      EXPECT_EQ(x.counts[c].in_answer, y.counts[c].in_answer);
    }
  }
  ASSERT_EQ(a.copies.size(), b.copies.size());
  for (size_t i = 0; i < a.copies.size(); ++i) {
    EXPECT_EQ(a.copies[i].from, b.copies[i].from);
    EXPECT_EQ(a.copies[i].to, b.copies[i].to);
  }
  EXPECT_EQ(a.masks_follow, b.masks_follow);
}

TEST(FrameCodecTest, GivesBackWhatItWasGiven) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    FrameDice dice(seed);
    const Frame frame = dice.frame();
    const std::vector<std::byte> bytes = encode(frame);
    const Frame again = decode_frame(bytes, kShape);
    expect_equal(frame, again);
    EXPECT_EQ(encode(again), bytes);
    const FrameMasks masks = dice.masks();
    const FrameMasks same_masks = decode_frame_masks(encode(masks), kShape);
    EXPECT_EQ(same_masks.number, masks.number);
    EXPECT_EQ(same_masks.rows, masks.rows);
    const FrameResult result = dice.result();
    const FrameResult same = decode_frame_result(encode(result), kShape);
    EXPECT_EQ(same.number, result.number);
    ASSERT_EQ(same.tokens.size(), result.tokens.size());
    for (size_t i = 0; i < same.tokens.size(); ++i) {
      EXPECT_EQ(same.tokens[i].token, result.tokens[i].token);
      EXPECT_EQ(same.tokens[i].logprob, result.tokens[i].logprob);
      EXPECT_EQ(same.tokens[i].finite, result.tokens[i].finite);
      ASSERT_EQ(same.tokens[i].top.size(), result.tokens[i].top.size());
      for (size_t t = 0; t < same.tokens[i].top.size(); ++t) {
        EXPECT_EQ(same.tokens[i].top[t].token, result.tokens[i].top[t].token);
        EXPECT_EQ(same.tokens[i].top[t].logprob, result.tokens[i].top[t].logprob);
      }
    }
  }
}

// Rows of one request share a Sampling: it crosses once.
TEST(FrameCodecTest, SamplingsAreSentOnce) {
  Frame frame = FrameDice(1).frame();
  Sampling how;
  how.logit_bias.assign(300, {1, 2.0});
  frame.rows.clear();
  frame.rows.push_back({0, {.how = std::make_shared<const Sampling>(how)}});
  const size_t one = encode(frame).size();
  frame.rows.push_back(frame.rows[0]);
  EXPECT_LT(encode(frame).size(), one + 100);
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(FrameCodecTest, GarbageIsRefusedOrRight) {
  int64_t refused = 0;
  tessera::testing::TryMany tries(4'000, 100'000);
  for (uint64_t seed = 0; tries.next(); ++seed) {
    FrameDice dice(seed);
    tessera::testing::Damage damage(seed);
    const bool is_frame = seed % 4 > 1;
    const bool is_masks = seed % 4 == 1;
    const std::string text = damage.of(as_text(is_frame   ? encode(dice.frame())
                                               : is_masks ? encode(dice.masks())
                                                          : encode(dice.result())));
    const auto bytes = std::as_bytes(std::span(text));
    try {
      if (is_frame) {
        // What is not refused is a frame that a rank can run, and the same once more.
        const Frame frame = decode_frame(bytes, kShape);
        expect_equal(frame, decode_frame(encode(frame), kShape));
      } else if (is_masks) {
        EXPECT_LE(std::ssize(decode_frame_masks(bytes, kShape).rows), kShape.max_rows);
      } else {
        decode_frame_result(bytes, kShape);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, tries.tried() / 2);
}

TEST(FrameCodecTest, EveryCutIsRefused) {
  const std::vector<std::byte> bytes = encode(FrameDice(3).frame());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode_frame(std::span(bytes).first(size), kShape), Error) << size;
  }
}

TEST(FrameCodecTest, SaysWhatIsWrong) {
  Frame good;
  good.tokens = {1, 2, 3};
  good.sequences = {{.num_tokens = 3, .cached = 14, .pages = {4, 5}}};
  good.rows = {{2, {.how = std::make_shared<const Sampling>()}}};
  const auto refusal = [&](const auto& change, const ServeShape& shape = kShape) {
    Frame frame = good;
    change(frame);
    return message_of<Error>([&] { decode_frame(encode(frame), shape); });
  };
  EXPECT_EQ(refusal([](Frame&) {}), "no error");
  EXPECT_EQ(refusal([](Frame& f) { f.tokens[1] = 70; }),
            "a frame has the token 70; the vocabulary has 70");
  EXPECT_EQ(refusal([](Frame& f) { f.sequences[0].pages = {4}; }),
            "sequence 0 of a frame has 1 pages; 17 tokens need 2");
  EXPECT_EQ(refusal([](Frame& f) { f.sequences[0].pages[0] = 40; }),
            "a frame has the page 40; the cache has 40");
  EXPECT_EQ(refusal([](Frame& f) { f.tokens.push_back(0); }),
            "the sequences of a frame have 3 tokens, the frame 4");
  EXPECT_EQ(refusal([](Frame& f) { f.rows[0].token_index = 3; }),
            "a row is of token 3; the frame has 3");
  EXPECT_EQ(refusal([](Frame& f) { f.rows[0].sampling.allowed = {1}; }),
            "the mask of a row has 1 words; 70 tokens need 3");
  EXPECT_EQ(refusal([](Frame& f) { f.sequences[0].cached = 198; }),
            "sequence 0 of a frame has 3 tokens behind 198; a context has 200");
  EXPECT_EQ(refusal([](Frame& f) {
              f.copies = {{0, -1}};
            }),
            "a frame has the page -1; the cache has 40");
  EXPECT_EQ(
      refusal([](Frame&) {}, {.vocab = 70, .max_context = 200, .num_pages = 40, .max_tokens = 2}),
      "tokens: 3, at most 2 are allowed");
  EXPECT_EQ(refusal([](Frame& f) {
              f.rows[0].sampling.how =
                  std::make_shared<const Sampling>(Sampling{.top_p = std::nan("")});
            }),
            "top_p is nan");
  std::vector<std::byte> newer = encode(good);
  newer[0] = std::byte{3};
  EXPECT_EQ(message_of<Error>([&] { decode_frame(newer, kShape); }),
            "a frame of version 3; this program knows 2: run the same program on all ranks");
  EXPECT_EQ(message_of<Error>([&] {
              decode_frame_masks(encode(FrameMasks{.number = 1, .rows = {{1, 2}}}), kShape);
            }),
            "the mask of a row has 2 words; 70 tokens need 3");
  EXPECT_EQ(message_of<Error>([&] { decode_frame(encode(FrameResult{}), kShape); }),
            "bytes of the kind 82 are no frame");
}

}  // namespace
}  // namespace tessera::serve
