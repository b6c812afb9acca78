#include "serve/api/metrics.h"

#include <fmt/format.h>

#include <iterator>
#include <span>

namespace tessera::serve {
namespace {

// Upper bounds, those of vLLM.
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                        0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160};
constexpr double kTokenBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                   0.3,   0.4,    0.5,   0.75, 1,     2.5,  5,     7.5, 10};
constexpr double kRequestBounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,  2.5, 5,   10,
                                     15,  20,  30,  40, 50,  60, 120, 240, 480};
constexpr double kLengthBounds[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                    500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

// As Prometheus reads it; a name of a model may hold anything.
std::string label_value(std::string_view text) {
  std::string value;
  for (const char c : text) {
    if (c == '\n') {
      value += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') value += '\\';
    value += c;
  }
  return value;
}

class Page {
 public:
  explicit Page(const std::string& model)
      : label_(fmt::format("model_name=\"{}\"", label_value(model))) {}

  template <typename Number>
  void one(std::string_view kind, std::string_view name, std::string_view help, Number value) {
    head(kind, name, help);
    line(name, "", value);
  }
  void head(std::string_view kind, std::string_view name, std::string_view help) {
    text_ += fmt::format("# HELP tessera_{0} {1}\n# TYPE tessera_{0} {2}\n", name, help, kind);
  }
  template <typename Number>
  void line(std::string_view name, std::string_view more, Number value) {
    text_ += fmt::format("tessera_{}{{{}{}}} {}\n", name, label_, more, value);
  }
  template <typename Histogram>
  void histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                 const Histogram& histogram) {
    head("histogram", name, help);
    uint64_t below = 0;
    for (size_t i = 0; i < bounds.size(); ++i) {
      below += histogram.counts[i];
      line(fmt::format("{}_bucket", name), fmt::format(",le=\"{}\"", bounds[i]), below);
    }
    line(fmt::format("{}_bucket", name), ",le=\"+Inf\"", histogram.count);
    line(fmt::format("{}_sum", name), "", histogram.sum);
    line(fmt::format("{}_count", name), "", histogram.count);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string label_, text_;
};

void add_generator(Page& page, const GeneratorStats& stats) {
  page.one("gauge", "num_requests_running", "Answers that are being written.", stats.running);
  page.one("gauge", "num_requests_waiting", "Requests that wait to be begun.", stats.waiting);
  const double share =
      stats.pages > 0 ? static_cast<double>(stats.pages_used) / static_cast<double>(stats.pages)
                      : 0.0;
  page.one("gauge", "kv_cache_usage_perc", "Share of the pages of the cache in use, 0 to 1.",
           share);
  page.one("gauge", "kv_cache_pages", "Pages of the cache.", stats.pages);
  page.one("gauge", "kv_cache_pages_cached", "Pages kept for prompts that begin alike.",
           stats.pages_cached);
  page.one("counter", "prompt_tokens_total", "Tokens of prompts.", stats.prompt_tokens_total);
  page.one("counter", "generation_tokens_total", "Tokens of answers.", stats.answer_tokens_total);
  page.one("counter", "prefix_cache_queries_total", "Tokens of prompts looked for in the cache.",
           stats.prefix_asked_tokens_total);
  page.one("counter", "prefix_cache_hits_total", "Those that were there.",
           stats.prefix_hit_tokens_total);
  page.one("counter", "num_preemptions_total", "Answers that made room for others.",
           stats.preemptions_total);
  page.one("counter", "recomputed_tokens_total", "Tokens computed again after that.",
           stats.recomputed_tokens_total);
  page.one("counter", "engine_frames_total", "Steps of the engine.", stats.frames_total);
}

}  // namespace

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kDeadline:
      return "timeout";
    case FinishReason::kFailed:
      break;
  }
  return "error";
}

void ServeMetrics::observe(Histogram& histogram, std::span<const double> bounds, double value) {
  size_t at = 0;
  while (at < bounds.size() && value > bounds[at]) ++at;
  ++histogram.counts[at];
  ++histogram.count;
  histogram.sum += value;
}

void ServeMetrics::first_token(Seconds since_start) {
  const std::lock_guard lock(mutex_);
  observe(first_token_, kFirstTokenBounds, since_start.count());
}

void ServeMetrics::next_token(Seconds since_last) {
  const std::lock_guard lock(mutex_);
  observe(next_token_, kTokenBounds, since_last.count());
}

void ServeMetrics::answer(FinishReason reason, int64_t tokens, Seconds writing) {
  const std::lock_guard lock(mutex_);
  ++finished_[static_cast<size_t>(reason)];
  if (tokens > 1) {
    observe(per_token_, kTokenBounds, writing.count() / static_cast<double>(tokens - 1));
  }
}

void ServeMetrics::request(Seconds since_start, int64_t prompt_tokens, int64_t answer_tokens) {
  const std::lock_guard lock(mutex_);
  observe(request_, kRequestBounds, since_start.count());
  observe(prompt_tokens_, kLengthBounds, static_cast<double>(prompt_tokens));
  observe(answer_tokens_, kLengthBounds, static_cast<double>(answer_tokens));
}

void ServeMetrics::response(int status) {
  const std::lock_guard lock(mutex_);
  ++responses_[status];
}

void ServeMetrics::dropped_reader() {
  const std::lock_guard lock(mutex_);
  ++dropped_readers_;
}

std::string ServeMetrics::text(const GeneratorStats& stats, const std::string& model,
                               int open_requests, bool ready) const {
  Page page(model);
  page.one("gauge", "ready", "1 where /health/ready says so.", ready ? 1 : 0);
  page.one("gauge", "http_requests_open", "Requests that are being answered.", open_requests);
  add_generator(page, stats);
  const std::lock_guard lock(mutex_);
  page.histogram("time_to_first_token_seconds", "From a request to its first token.",
                 kFirstTokenBounds, first_token_);
  page.histogram("inter_token_latency_seconds", "Between two tokens of an answer.", kTokenBounds,
                 next_token_);
  page.histogram("time_per_output_token_seconds",
                 "Mean time of a token after the first, by answer.", kTokenBounds, per_token_);
  page.histogram("e2e_request_latency_seconds", "From a request to its last token.", kRequestBounds,
                 request_);
  page.histogram("request_prompt_tokens", "Tokens of the prompts of a request.", kLengthBounds,
                 prompt_tokens_);
  page.histogram("request_generation_tokens", "Tokens of the answers to a request.", kLengthBounds,
                 answer_tokens_);
  page.head("counter", "request_success_total", "Answers by how they ended.");
  for (size_t i = 0; i < finished_.size(); ++i) {
    page.line("request_success_total",
              fmt::format(",finished_reason=\"{}\"", name_of(static_cast<FinishReason>(i))),
              finished_[i]);
  }
  page.head("counter", "http_responses_total", "Responses by status.");
  for (const auto& [status, count] : responses_) {
    page.line("http_responses_total", fmt::format(",status=\"{}\"", status), count);
  }
  page.one("counter", "slow_readers_dropped_total", "Streams whose reader took too little.",
           dropped_readers_);
  return page.take();
}

}  // namespace tessera::serve
