// How long people wait for an engine on a mesh, predicted: for the first token of an answer behind
// a prompt (TTFT), and for every next one (TPOT). Of frames alone: whoever brings requests and
// takes answers adds his own time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/plan/serve_report.h"
#include "serve/predict/frame_pricer.h"

namespace tessera::serve {

// One token more for each of `batch` sequences that have `context` tokens, the newest included. A
// pipeline gets a part of them for each stage, so that all work at once.
double decode_step_s(FramePricer& pricer, const ServeEstimate& estimate, int64_t batch,
                     int64_t context);
// From the start of a prompt that is alone, in chunks of at most `chunk` tokens, to its first
// token.
double first_token_s(FramePricer& pricer, const ServeEstimate& estimate, int64_t length,
                     int64_t chunk);
// The chunks that the scheduler cuts such a prompt into where nobody asks for others.
int64_t usual_chunk(const ServeEstimate& estimate, int64_t length);

struct PredictedStep {
  int64_t sequences = 0, context = 0;
  double step_s = 0;
};
struct PredictedPrompt {
  int64_t tokens = 0;
  double first_token_s = 0;
};

struct ServePrediction {
  std::vector<PredictedStep> steps;  // as decode_floors() of the report
  std::vector<PredictedPrompt> prompts;
  bool measured = false;  // by what was measured of frames; else by constants of the device
  std::string source;     // of the measurement, or whose constants
  std::string why_not;    // nothing is predicted
};

// Prompts of 512, 2k and 8k tokens, as far as they are no longer than the longest sequence.
ServePrediction predict_serving(const ServeReport& report);

std::string prediction_text(const ServePrediction& prediction);
nlohmann::ordered_json prediction_json(const ServePrediction& prediction);

}  // namespace tessera::serve
