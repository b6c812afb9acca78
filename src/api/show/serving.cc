#include "api/show/serving.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/show/values.h"
#include "base/error.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "serve/batch/played_frames.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ShowField::Kind;
using serve::PlayedFrame;
using serve::PlayedPart;
using serve::PlayedServing;

constexpr int64_t kMostFrames = 4000;
constexpr int64_t kMostPromptTokens = 1 << 20;  // of all requests together

constexpr ShowField kServingFields[] = {
    {"stages", Kind::kWhole, "4", "of the pipeline; so many frames can be under way", 1, 32},
    {"requests", Kind::kWhole, "4", "that come one after the other", 1, 64},
    {"arrive", Kind::kReal, "0", "time from one request to the next; 0: all come at once", 0, 1e6},
    {"prompt", Kind::kSize, "1024", "tokens of each prompt"},
    {"answer", Kind::kWhole, "8", "tokens of each answer", 1, 512},
    {"expected_answer", Kind::kWhole, "",
     "tokens for which the scheduler keeps pages free, since it cannot know (default: answer); "
     "fewer, and requests may be preempted",
     1, 512},
    {"token_budget", Kind::kWhole, "512", "tokens of a frame, at most", 1, 65536},
    {"chunk", Kind::kWhole, "128",
     "tokens of a prompt in a frame, at least; with several stages a prompt is cut into one chunk "
     "for each",
     1, 65536},
    {"max_sequences", Kind::kWhole, "64", "sequences of a frame, at most", 1, 1024},
    {"page", Kind::kWhole, "16", "tokens of a page", 1, 1024},
    {"pages", Kind::kWhole, "", "of the cache (default: enough for all requests)", 1, 1 << 20},
    {"frame_time", Kind::kReal, "1", "time of a stage for any frame", 0, 1e6},
    {"token_time", Kind::kReal, "0", "time that each token of a frame adds", 0, 1e6},
};

struct AskedServing {
  serve::ServeShape shape;
  serve::BatchOptions options;
  std::vector<serve::PlayedRequest> requests;
  PlayedServing played;
};

int64_t prompt_tokens(const ShowValues& values) {
  const nlohmann::json& said = values.json("prompt");
  const std::string text = said.is_string() ? said.get<std::string>() : said.dump();
  const std::optional<int64_t> tokens = parse_count(text, Thousand::kBinary);
  const int64_t requests = values.whole("requests");
  if (!tokens || *tokens < 1 || *tokens > kMostPromptTokens / requests) {
    values.refuse("prompt",
                  fmt::format("a whole number from 1 to {} for {}, such as 1024 or 1k",
                              kMostPromptTokens / requests, count_of(requests, "request")));
  }
  return *tokens;
}

AskedServing asked_serving(const ShowValues& values) {
  AskedServing asked;
  const int64_t prompt = prompt_tokens(values);
  const int64_t answer = values.whole("answer");
  const int64_t requests = values.whole("requests");
  serve::ServeShape& shape = asked.shape;
  shape.vocab = 1;
  shape.max_context = prompt + answer;
  shape.page_size = values.whole("page");
  const int64_t pages = (prompt + answer + shape.page_size - 1) / shape.page_size;
  // So that all run at once although a fiftieth stays free.
  const int64_t enough = requests * pages + requests * pages / 40 + 1;
  shape.num_pages = values.has("pages") ? values.whole("pages") : enough;
  shape.max_tokens = values.whole("token_budget");
  shape.max_sequences = shape.max_rows = values.whole("max_sequences");
  shape.stages = values.number("stages");
  asked.options.token_budget = shape.max_tokens;
  asked.options.least_chunk = values.whole("chunk");
  asked.options.expected_answer =
      values.has("expected_answer") ? values.whole("expected_answer") : answer;
  asked.options.prefix_cache = false;  // no prompt begins as another does
  for (int64_t i = 0; i < requests; ++i) {
    asked.requests.push_back({values.real("arrive") * static_cast<double>(i), prompt, answer});
  }
  const serve::StageSeconds seconds{values.real("frame_time"), values.real("token_time")};
  require_config(seconds.frame + seconds.token > 0,
                 "serving: frame_time and token_time are 0: give one of them a time");
  asked.played = serve::play_serving(shape, asked.options, asked.requests, seconds, kMostFrames);
  return asked;
}

// [request, first, count, 1 of an answer]
Json parts_json(const PlayedFrame& frame) {
  Json parts = Json::array();
  for (const PlayedPart& part : frame.parts) {
    parts.push_back({part.request, part.first, part.count, part.is_answer ? 1 : 0});
  }
  return parts;
}

Json frames_json(const PlayedServing& played) {
  Json frames = Json::array();
  for (const PlayedFrame& frame : played.frames) {
    Json stages = Json::array();
    for (const auto& [begin, end] : frame.stages) stages.push_back({begin, end});
    frames.push_back({{"planned", frame.planned},
                      {"tokens", frame.tokens},
                      {"rows", frame.rows},
                      {"pages_used", frame.pages_used},
                      {"parts", parts_json(frame)},
                      {"stages", std::move(stages)}});
  }
  return frames;
}

Json serving_answer(const ShowValues& values, const Surroundings&) {
  const AskedServing asked = asked_serving(values);
  const PlayedServing& played = asked.played;
  Json json = {{"stages", asked.shape.stages},
               {"token_budget", asked.shape.max_tokens},
               {"page", asked.shape.page_size},
               {"pages", asked.shape.num_pages},
               {"makespan", played.makespan},
               {"preemptions", played.preemptions},
               {"recomputed_tokens", played.recomputed_tokens}};
  json["requests"] = Json::array();
  for (size_t i = 0; i < asked.requests.size(); ++i) {
    json["requests"].push_back({{"arrival", asked.requests[i].arrival},
                                {"prompt", asked.requests[i].prompt_tokens},
                                {"answer", asked.requests[i].answer_tokens},
                                {"first_token", played.first_token[i]},
                                {"end", played.end[i]}});
  }
  json["busy"] = Json::array();
  for (int stage = 0; stage < asked.shape.stages; ++stage) {
    json["busy"].push_back(played.busy(static_cast<size_t>(stage)));
  }
  json["frames"] = frames_json(played);
  return json;
}

// "request 0: prompt 0-127; answers of 1, 2"
std::string parts_text(const PlayedFrame& frame) {
  std::vector<std::string> parts;
  std::vector<int64_t> answers;
  for (const PlayedPart& part : frame.parts) {
    if (part.is_answer) {
      answers.push_back(part.request);
    } else {
      parts.push_back(
          fmt::format("prompt {}: {}-{}", part.request, part.first, part.first + part.count - 1));
    }
  }
  if (!answers.empty()) {
    parts.insert(parts.begin(), fmt::format("next token of {}", fmt::join(answers, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string serving_answer_text(const ShowValues& values, const Surroundings&) {
  const AskedServing asked = asked_serving(values);
  const PlayedServing& played = asked.played;
  TextTable table({{"frame", Align::kRight},
                   {"first stage", Align::kRight},
                   {"done", Align::kRight},
                   {"tokens", Align::kRight},
                   {"pages", Align::kRight},
                   {"what", Align::kLeft}});
  constexpr size_t kMostRows = 60;
  for (size_t f = 0; f < std::min(kMostRows, played.frames.size()); ++f) {
    const PlayedFrame& frame = played.frames[f];
    table.add_row(
        {std::to_string(f),
         fmt::format("{:g}-{:g}", frame.stages.front().first, frame.stages.front().second),
         fmt::format("{:g}", frame.stages.back().second), with_thousands(frame.tokens),
         with_thousands(frame.pages_used), parts_text(frame)});
  }
  std::string text = table.str();
  if (played.frames.size() > kMostRows) {
    text +=
        fmt::format("… and {} more frames (--json has all)\n", played.frames.size() - kMostRows);
  }
  text += fmt::format("\n{} in {:g}, of which a stage computes {:.1f} %\n",
                      count_of(std::ssize(played.frames), "frame"), played.makespan,
                      100 * played.busy(0) / played.makespan);
  for (size_t i = 0; i < asked.requests.size(); ++i) {
    text += fmt::format("request {}: came at {:g}, first token at {:g}, done at {:g}\n", i,
                        asked.requests[i].arrival, played.first_token[i], played.end[i]);
  }
  if (played.preemptions > 0) {
    text += fmt::format("preempted {}, {} computed again\n",
                        count_of(static_cast<int64_t>(played.preemptions), "time"),
                        count_of(static_cast<int64_t>(played.recomputed_tokens), "token"));
  }
  return text;
}

}  // namespace

ShowTopic serving_topic() {
  return {"serving",
          "Which part of which request every stage of a pipeline computes, and when.",
          "--stages 4 --requests 4 --prompt 1k --answer 8",
          kServingFields,
          serving_answer,
          for_terminals(serving_answer_text)};
}

}  // namespace tessera
