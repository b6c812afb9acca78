#include "serve/testing/text_feeder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/rounding.h"

namespace tessera::serve::testing {

ServePlan test_plan(const ServedModel& model, const FeedOptions& options) {
  ServeOptions o;
  o.tp = options.tp;
  o.pp = options.pp;
  o.ep = options.ep;
  o.dtype = options.dtype;
  o.threads = options.threads;
  o.page_size = options.page_size;
  o.max_context = options.max_context;
  o.max_tokens = o.max_rows = options.max_tokens;
  o.max_sequences = options.max_sequences;
  o.num_pages = options.num_pages > 0 ? options.num_pages
                                      : 8 * ceil_div(options.max_context, options.page_size);
  o.timeout = std::chrono::milliseconds(20'000);
  return plan_serving(model.spec, o);
}

std::unique_ptr<LocalFrameRunner> test_runner(const ServedModel& model,
                                              const FeedOptions& options) {
  ServePlan plan = test_plan(model, options);
  const TensorSource weights = model.weights(plan.buckets.front().step.layout);
  auto runner = std::make_unique<LocalFrameRunner>(std::move(plan), weights);
  runner->keep_logits();
  return runner;
}

TextFeeder::TextFeeder(LocalFrameRunner& runner, uint64_t seed)
    : runner_(runner), random_(seed), free_pages_(static_cast<size_t>(runner.shape().num_pages)) {
  std::iota(free_pages_.begin(), free_pages_.end(), 0);
  std::shuffle(free_pages_.begin(), free_pages_.end(), random_);
}

Frame TextFeeder::next_frame(const std::vector<Text>& texts, const ChunkSize& chunk,
                             int64_t together) {
  static const auto kGreedy = [] {
    auto sampling = std::make_shared<Sampling>();
    sampling->temperature = 0;
    return std::shared_ptr<const Sampling>(std::move(sampling));
  }();
  const ServeShape& shape = runner_.shape();
  Frame frame;
  frame.number = static_cast<uint64_t>(++frames_);
  std::vector<size_t> order;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (progress_[i].done < std::ssize(texts[i])) order.push_back(i);
  }
  std::shuffle(order.begin(), order.end(), random_);
  std::vector<Row> rows;
  for (const size_t i : order) {
    Progress& p = progress_[i];
    const int64_t room = shape.max_tokens - std::ssize(frame.tokens);
    const auto held = std::ssize(frame.sequences);
    if (room == 0 || held == shape.max_sequences || held == together) break;
    const int64_t left = std::ssize(texts[i]) - p.done;
    const int64_t count = std::clamp<int64_t>(chunk(left), 1, std::min(left, room));
    while (std::ssize(p.pages) * shape.page_size < p.done + count) {
      TESSERA_CHECK(!free_pages_.empty(), "the test needs more pages");
      p.pages.push_back(free_pages_.back());
      free_pages_.pop_back();
    }
    FrameSequence sequence;
    sequence.num_tokens = static_cast<int32_t>(count);
    sequence.cached = static_cast<int32_t>(p.done);
    sequence.pages = p.pages;
    for (int64_t t = p.done; t < p.done + count; ++t) {
      FrameRow row;
      row.token_index = static_cast<int32_t>(frame.tokens.size());
      row.sampling.how = kGreedy;
      row.sampling.position = t + 1;
      frame.rows.push_back(std::move(row));
      rows.push_back({i});
      frame.tokens.push_back(texts[i][static_cast<size_t>(t)]);
    }
    frame.sequences.push_back(std::move(sequence));
    p.done += count;
  }
  under_way_.push_back(std::move(rows));
  return frame;
}

void TextFeeder::take(std::vector<Rows>& logits) {
  const FrameResult result = runner_.finish();
  const std::vector<Row> rows = std::move(under_way_.front());
  under_way_.pop_front();
  const auto& values = runner_.logits();
  TESSERA_CHECK(values.size() == rows.size() && result.tokens.size() == rows.size(),
                "{} rows, {} tokens of {}", values.size(), result.tokens.size(), rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto best = std::max_element(values[r].begin(), values[r].end()) - values[r].begin();
    TESSERA_CHECK(result.tokens[r].token == best || !result.tokens[r].finite,
                  "token {} is chosen, {} is likelier", result.tokens[r].token, best);
    logits[rows[r].text].push_back(values[r]);
  }
}

std::vector<Rows> TextFeeder::feed(const std::vector<Text>& texts, const ChunkSize& chunk,
                                   int64_t together) {
  progress_.assign(texts.size(), {});
  std::vector<Rows> logits(texts.size());
  const auto left = [&] {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (progress_[i].done < std::ssize(texts[i])) return true;
    }
    return false;
  };
  while (left() || !under_way_.empty()) {
    const bool full = std::ssize(under_way_) == runner_.shape().stages;
    if (full || !left()) {
      take(logits);
      continue;
    }
    Frame frame = next_frame(texts, chunk, together);
    if (on_frame) on_frame(frame);
    runner_.start(frame);
  }
  for (const Progress& p : progress_) {
    free_pages_.insert(free_pages_.begin(), p.pages.begin(), p.pages.end());
  }
  return logits;
}

double difference(const std::vector<Rows>& a, const std::vector<Rows>& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double largest = 0;
  if (a.size() != b.size()) return kInfinite;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return kInfinite;
    for (size_t t = 0; t < a[i].size(); ++t) {
      double scale = 0;
      for (const double value : a[i][t]) scale = std::max(scale, std::abs(value));
      for (size_t v = 0; v < a[i][t].size(); ++v) {
        const double off = std::abs(a[i][t][v] - b[i][t][v]) / scale;
        if (!(off <= largest)) largest = std::isfinite(off) ? off : kInfinite;
      }
    }
  }
  return largest;
}

}  // namespace tessera::serve::testing
