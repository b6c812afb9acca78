#include "serve/testing/toy_model.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "serve/sample/sampler.h"

namespace tessera::serve {
namespace {

uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace

uint64_t toy_state(int32_t token, int64_t position, uint64_t sum_before) {
  return mix(mix(sum_before + static_cast<uint64_t>(position)) + static_cast<uint64_t>(token));
}

uint64_t toy_state_of(std::span<const int32_t> text) {
  uint64_t sum = 0, state = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    state = toy_state(text[i], static_cast<int64_t>(i), sum);
    sum += state;
  }
  return state;
}

std::vector<double> toy_logits(uint64_t state, int64_t vocab) {
  std::vector<double> logits(static_cast<size_t>(vocab));
  for (size_t i = 0; i < logits.size(); ++i) {
    constexpr uint64_t kSteps = 1 << 16;
    logits[i] = static_cast<double>(mix(state + i) % kSteps) * (8.0 / kSteps) - 4;
  }
  return logits;
}

ToyCache::ToyCache(const ServeShape& shape)
    : shape_(shape), slots_(static_cast<size_t>(shape.num_pages * shape.page_size)) {}

ToyCache::Slot& ToyCache::slot(const FrameSequence& sequence, int64_t position) {
  const auto page = sequence.pages[static_cast<size_t>(position / shape_.page_size)];
  return slots_[static_cast<size_t>(page * shape_.page_size + position % shape_.page_size)];
}

void ToyCache::check(const Frame& frame) const {
  const auto tokens = std::ssize(frame.tokens), sequences = std::ssize(frame.sequences),
             rows = std::ssize(frame.rows);
  require(tokens > 0 && tokens <= shape_.max_tokens && sequences <= shape_.max_sequences &&
              rows <= shape_.max_rows,
          "a frame of {} tokens, {} sequences and {} rows", tokens, sequences, rows);
  int64_t sum = 0;
  std::set<int32_t> written;
  for (const FrameSequence& sequence : frame.sequences) {
    sum += sequence.num_tokens;
    const int64_t end = sequence.cached + sequence.num_tokens;
    require(sequence.num_tokens > 0 && end <= shape_.max_context &&
                std::ssize(sequence.pages) == (end + shape_.page_size - 1) / shape_.page_size,
            "{} tokens behind {} in {} pages", sequence.num_tokens, sequence.cached,
            sequence.pages.size());
    for (auto i = static_cast<size_t>(sequence.cached / shape_.page_size);
         i < sequence.pages.size(); ++i) {
      require(written.insert(sequence.pages[i]).second, "page {} is written by two",
              sequence.pages[i]);
    }
  }
  require(sum == tokens, "{} tokens in sequences, {} in the frame", sum, tokens);
}

std::vector<uint64_t> ToyCache::run(const Frame& frame) {
  check(frame);
  for (const PageCopy& copy : frame.copies) {
    const auto from = slots_.begin() + copy.from * shape_.page_size;
    std::copy(from, from + shape_.page_size, slots_.begin() + copy.to * shape_.page_size);
  }
  // All are read before any is written: within a frame, nobody sees another's tokens.
  std::vector<uint64_t> sums;
  for (const FrameSequence& sequence : frame.sequences) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < sequence.cached; ++i) {
      const Slot& read = slot(sequence, i);
      require(read.position == i, "slot {} of page {} is of position {}", i % shape_.page_size,
              sequence.pages[static_cast<size_t>(i / shape_.page_size)], read.position);
      sum += read.state;
    }
    sums.push_back(sum);
  }
  std::vector<uint64_t> states;
  for (size_t i = 0; i < frame.sequences.size(); ++i) {
    const FrameSequence& sequence = frame.sequences[i];
    for (int64_t position = sequence.cached; position < sequence.cached + sequence.num_tokens;
         ++position) {
      const uint64_t state = toy_state(frame.tokens[states.size()], position, sums[i]);
      slot(sequence, position) = {state, position};
      sums[i] += state;
      states.push_back(state);
    }
  }
  std::vector<uint64_t> rows;
  for (const FrameRow& row : frame.rows) {
    rows.push_back(states.at(static_cast<size_t>(row.token_index)));
  }
  return rows;
}

void ToyRunner::start(const Frame& frame) {
  require(std::ssize(under_way_) < shape_.stages, "{} frames are under way in {} stages",
          under_way_.size() + 1, shape_.stages);
  require(frame.number == next_, "frame {} comes where {} should", frame.number, next_);
  ++next_;
  under_way_.push_back(frame);
}

void ToyRunner::allow(FrameMasks masks) {
  require(!under_way_.empty() && under_way_.back().masks_follow, "nobody waits for masks");
  Frame& frame = under_way_.back();
  require(frame.number == masks.number && frame.rows.size() == masks.rows.size(),
          "{} masks of frame {} came for {} rows of frame {}", masks.rows.size(), masks.number,
          frame.rows.size(), frame.number);
  for (size_t i = 0; i < masks.rows.size(); ++i) {
    if (!masks.rows[i].empty()) frame.rows[i].sampling.allowed = std::move(masks.rows[i]);
  }
  frame.masks_follow = false;
}

FrameResult ToyRunner::finish() {
  require(!under_way_.empty(), "no frame is under way");
  require(!under_way_.front().masks_follow, "the masks of frame {} have not come", next_);
  const Frame frame = std::move(under_way_.front());
  under_way_.pop_front();
  FrameResult result = {.number = frame.number, .tokens = {}};
  const std::vector<uint64_t> states = cache_.run(frame);
  for (size_t i = 0; i < states.size(); ++i) {
    result.tokens.push_back(sample(toy_logits(states[i], shape_.vocab), frame.rows[i].sampling));
  }
  return result;
}

}  // namespace tessera::serve
