#include "bench/bench_serve_requests.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/philox.h"

namespace tessera {
namespace {

// What is drawn for a request; prompts have streams of their own.
enum Stream : uint64_t { kArrivals, kPromptLengths, kAnswerLengths, kSharedPrompt, kPrompts };

constexpr std::array<std::string_view, 32> kWords = {
    "time",   "light",  "stone", "river", "house", "word",   "green", "night",
    "paper",  "cloud",  "bread", "glass", "road",  "voice",  "tree",  "salt",
    "winter", "hand",   "door",  "ship",  "music", "rain",   "field", "star",
    "horse",  "bridge", "fire",  "cold",  "wind",  "garden", "name",  "city"};

int64_t draw(uint64_t seed, uint64_t stream, uint64_t index, int64_t below) {
  return static_cast<int64_t>(static_cast<double>(below) * uniform_at(seed, stream, index));
}

}  // namespace

int64_t LoadPlan::length(int64_t mean, uint64_t stream) const {
  const double around = 2 * uniform_at(shape_.seed, stream, static_cast<uint64_t>(number_)) - 1;
  const double tokens = static_cast<double>(mean) * (1 + shape_.spread * around);
  return std::max<int64_t>(1, std::llround(tokens));
}

PlannedRequest LoadPlan::next() {
  PlannedRequest request;
  request.prompt_tokens = length(shape_.prompt_tokens, kPromptLengths);
  request.answer_tokens = length(shape_.answer_tokens, kAnswerLengths);
  if (shape_.rate > 0) {
    const double u = uniform_at(shape_.seed, kArrivals, static_cast<uint64_t>(number_));
    at_s_ -= std::log1p(-u) / shape_.rate;
    request.at_s = at_s_;
  }
  ++number_;
  return request;
}

std::string LoadPlan::path() const {
  return shape_.chat ? "/v1/chat/completions" : "/v1/completions";
}

std::string LoadPlan::body(int64_t number, const PlannedRequest& request) const {
  const int64_t shared =
      std::llround(shape_.shared_prefix * static_cast<double>(request.prompt_tokens));
  const uint64_t own = kPrompts + static_cast<uint64_t>(number);
  std::string text;
  nlohmann::ordered_json ids = nlohmann::ordered_json::array();
  for (int64_t t = 0; t < request.prompt_tokens; ++t) {
    const uint64_t stream = t < shared ? uint64_t{kSharedPrompt} : own;
    const auto at = static_cast<uint64_t>(t);
    if (shape_.text || shape_.chat) {
      const auto word = draw(shape_.seed, stream, at, std::ssize(kWords));
      text += (t > 0 ? " " : "") + std::string(kWords[static_cast<size_t>(word)]);
    } else {
      ids.push_back(draw(shape_.seed, stream, at, shape_.vocab));
    }
  }
  nlohmann::ordered_json json = {{"model", shape_.model}};
  if (shape_.chat) {
    json["messages"] = {{{"role", "user"}, {"content", text}}};
  } else if (shape_.text) {
    json["prompt"] = text;
  } else {
    json["prompt"] = std::move(ids);
    // A token is one also where it has no text: servers without a tokenizer speak of ids alone.
    json["return_token_ids"] = true;
  }
  json["max_tokens"] = request.answer_tokens;
  json["temperature"] = 0;
  if (shape_.ignore_end) json["ignore_eos"] = true;
  json["stream"] = true;
  json["stream_options"] = {{"include_usage", true}};
  return json.dump();
}

}  // namespace tessera
