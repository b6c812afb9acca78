#include "serve/predict/simulate_serving.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace tessera::serve {
namespace {

constexpr int64_t kMostFrames = 1'000'000;

double draw(const ServeTraffic& traffic, uint64_t stream, int64_t number) {
  return uniform_at(traffic.seed, stream, static_cast<uint64_t>(number));
}

int64_t length(const ServeTraffic& traffic, int64_t mean, uint64_t stream, int64_t number) {
  const double around = 1 + traffic.spread * (2 * draw(traffic, stream, number) - 1);
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(mean) * around + 0.5));
}

std::vector<PlayedRequest> requests_of(const ServeTraffic& traffic) {
  std::vector<PlayedRequest> requests;
  double at = 0;
  for (int64_t i = 0; i < traffic.requests; ++i) {
    if (traffic.rate > 0) at -= std::log(1 - draw(traffic, 1, i)) / traffic.rate;
    requests.push_back(
        {at, length(traffic, traffic.prompt, 2, i), length(traffic, traffic.answer, 3, i)});
  }
  return requests;
}

FrameLoad load_of(const PlayedFrame& frame) {
  FrameLoad load;
  for (const PlayedPart& part : frame.parts) load.sequences.push_back({part.first, part.count});
  load.rows = frame.rows;
  return load;
}

void add_waits(SimulatedServing& result) {
  std::vector<double> ttft, tpot, whole;
  for (size_t i = 0; i < result.requests.size(); ++i) {
    const double came = result.played.arrival[i];
    ttft.push_back(result.played.first_token[i] - came);
    whole.push_back(result.played.end[i] - came);
    const int64_t more = result.requests[i].answer_tokens - 1;
    if (more < 1) continue;
    tpot.push_back((result.played.end[i] - result.played.first_token[i]) /
                   static_cast<double>(more));
  }
  result.ttft = percentiles_of(std::move(ttft));
  result.tpot = percentiles_of(std::move(tpot));
  result.itl = percentiles_of(result.played.gaps);
  result.whole = percentiles_of(std::move(whole));
}

void add_rates(SimulatedServing& result) {
  const PlayedServing& played = result.played;
  const double begin = played.arrival.front();
  result.seconds = played.makespan - begin;
  double prompts = 0, answers = 0;
  for (const PlayedRequest& one : result.requests) {
    prompts += static_cast<double>(one.prompt_tokens);
    answers += static_cast<double>(one.answer_tokens);
  }
  if (result.seconds <= 0) return;
  result.prompt_tokens_per_s = prompts / result.seconds;
  result.answer_tokens_per_s = answers / result.seconds;
  result.requests_per_s = static_cast<double>(result.requests.size()) / result.seconds;
  for (size_t f = 0; f < played.frames.size(); ++f) {
    const PlayedFrame& frame = played.frames[f];
    const double until =
        f + 1 < played.frames.size() ? played.frames[f + 1].planned : played.makespan;
    result.most_pages = std::max(result.most_pages, frame.pages_used);
    result.mean_pages += static_cast<double>(frame.pages_used) * (until - frame.planned);
  }
  result.mean_pages /= result.seconds;
  for (size_t s = 0; s < played.frames.front().stages.size(); ++s) {
    result.busy.push_back(played.busy(s) / result.seconds);
  }
}

}  // namespace

Percentiles percentiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    const auto place = static_cast<size_t>(std::ceil(part * static_cast<double>(values.size())));
    return values[std::min(values.size(), std::max<size_t>(1, place)) - 1];
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), at(0.5), at(0.95), at(0.99)};
}

SimulatedServing simulate_serving(FramePricer& pricer, const ServeEstimate& estimate,
                                  const BatchOptions& options, const ServeTraffic& traffic) {
  SimulatedServing result;
  result.requests = requests_of(traffic);
  const auto span_of = [&](const PlayedFrame& frame) {
    const FramePrice price = pricer.price(load_of(frame), estimate.shape.stages);
    return FrameSpan{price.stage_s, price.message_s};
  };
  result.played = play_serving(estimate.shape, options, result.requests, span_of,
                               {.most_frames = kMostFrames, .at_once = traffic.concurrency});
  add_waits(result);
  add_rates(result);
  return result;
}

}  // namespace tessera::serve
