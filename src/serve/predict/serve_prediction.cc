#include "serve/predict/serve_prediction.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text/text.h"
#include "plan/report/misfit_text.h"
#include "serve/batch/batch_options.h"

namespace tessera::serve {
namespace {

constexpr int64_t kPrompts[] = {512, 2048, 8192};

// Chunks through the stages, each as soon as it is there and the stage is free.
double pipeline_s(const std::vector<FramePrice>& frames) {
  std::vector<double> free_from(frames.front().stage_s.size(), 0);
  double ready = 0;
  for (const FramePrice& frame : frames) {
    ready = 0;
    for (size_t s = 0; s < free_from.size(); ++s) {
      ready = free_from[s] = std::max(ready, free_from[s]) + frame.stage_s[s];
      ready += frame.message_s;
    }
    ready -= frame.message_s;
  }
  return ready;
}

}  // namespace

double decode_step_s(FramePricer& pricer, const ServeEstimate& estimate, int64_t batch,
                     int64_t context) {
  const int64_t groups = std::min<int64_t>(estimate.shape.stages, batch);
  const FramePrice frame =
      pricer.price(decode_load(ceil_div(batch, groups), context), static_cast<int>(groups));
  return std::max(frame.total_s(), static_cast<double>(groups) * frame.slowest_s());
}

int64_t usual_chunk(const ServeEstimate& estimate, int64_t length) {
  if (estimate.shape.stages == 1) return estimate.shape.max_tokens;
  const int64_t chunk =
      std::max(BatchOptions().least_chunk, ceil_div(length, int64_t{estimate.shape.stages}));
  return std::min(chunk, estimate.shape.max_tokens);
}

double first_token_s(FramePricer& pricer, const ServeEstimate& estimate, int64_t length,
                     int64_t chunk) {
  const std::vector<FrameLoad> loads = prompt_loads(length, chunk);
  const auto busy = std::min<int64_t>(estimate.shape.stages, std::ssize(loads));
  std::vector<FramePrice> frames;
  for (const FrameLoad& load : loads) {
    frames.push_back(pricer.price(load, static_cast<int>(busy)));
  }
  return pipeline_s(frames);
}

ServePrediction predict_serving(const ServeReport& report) {
  ServePrediction prediction;
  if (!report.cluster) {
    prediction.why_not = "give --cluster; tessera calibrate measures this machine and writes one";
    return prediction;
  }
  const ServeEstimate& estimate = report.estimate;
  try {
    FramePricer pricer(estimate, *report.cluster, "processes");
    prediction.measured = pricer.measured();
    prediction.source =
        prediction.measured ? report.cluster->measured.source : report.cluster->device.name;
    for (const DecodeFloor& floor : decode_floors(report)) {
      prediction.steps.push_back({floor.sequences, floor.context,
                                  decode_step_s(pricer, estimate, floor.sequences, floor.context)});
    }
    for (const int64_t length : kPrompts) {
      if (length > estimate.shape.max_context) continue;
      prediction.prompts.push_back(
          {length, first_token_s(pricer, estimate, length, usual_chunk(estimate, length))});
    }
  } catch (const ConfigError& error) {
    prediction = {};
    prediction.why_not = error.what();
  }
  return prediction;
}

std::string prediction_text(const ServePrediction& prediction) {
  if (!prediction.why_not.empty()) {
    return fmt::format("predicted times: none: {}\n", prediction.why_not);
  }
  TextTable steps({{"step of", Align::kRight},
                   {"each with", Align::kRight},
                   {"predicted (TPOT)", Align::kRight},
                   {"tokens/s", Align::kRight}});
  for (const PredictedStep& step : prediction.steps) {
    steps.add_row({count_of(step.sequences, "sequence"), count_of(step.context, "token"),
                   short_seconds(step.step_s),
                   fmt::format("{:.0f}", static_cast<double>(step.sequences) / step.step_s)});
  }
  TextTable prompts({{"prompt of", Align::kRight},
                     {"first token after (TTFT)", Align::kRight},
                     {"tokens/s", Align::kRight}});
  for (const PredictedPrompt& prompt : prediction.prompts) {
    prompts.add_row(
        {count_of(prompt.tokens, "token"), short_seconds(prompt.first_token_s),
         fmt::format("{:.0f}", static_cast<double>(prompt.tokens) / prompt.first_token_s)});
  }
  const std::string head =
      prediction.measured
          ? fmt::format("predicted by what was measured there ({})\n", prediction.source)
          : fmt::format(
                "predicted by constants of {}, with kernels that reach them as training's "
                "do: a guess until frames are measured\n",
                prediction.source);
  return head + steps.str() + (prediction.prompts.empty() ? "" : "\n" + prompts.str()) +
         "of the engine alone, a prompt with nothing beside it; no HTTP\n";
}

nlohmann::ordered_json prediction_json(const ServePrediction& prediction) {
  nlohmann::ordered_json json;
  if (!prediction.why_not.empty()) {
    json["why_not"] = prediction.why_not;
    return json;
  }
  json["by"] = prediction.measured ? "measured" : "constants";
  json["source"] = prediction.source;
  json["tpot"] = nlohmann::ordered_json::array();
  for (const PredictedStep& step : prediction.steps) {
    json["tpot"].push_back(
        {{"sequences", step.sequences}, {"context", step.context}, {"step_s", step.step_s}});
  }
  json["ttft"] = nlohmann::ordered_json::array();
  for (const PredictedPrompt& prompt : prediction.prompts) {
    json["ttft"].push_back({{"prompt", prompt.tokens}, {"first_token_s", prompt.first_token_s}});
  }
  return json;
}

}  // namespace tessera::serve
