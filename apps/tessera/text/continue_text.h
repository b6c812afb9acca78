// One text and what a model makes of its end, on the terminal or as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "serve/start/start_model.h"
#include "text/follow_answer.h"
#include "text/model_flags.h"
#include "text/sampling_flags.h"

namespace tessera {

struct ContinueOptions {
  ModelFlags model = {};
  SamplingFlags sampling = {};
  std::string prompt = {};
  bool token_ids = false;  // the prompt is a list of ids, and so is what is written
  bool json = false;
};

// Starts the model and writes the text as it comes. Returns the exit code.
int continue_text(const ContinueOptions& options, Console& console);

// How long the text may be, in tokens.
struct TextRoom {
  int64_t made_for = 0;  // it ends here, unless somebody says how long it is
  int64_t most = 0;      // that there are positions for, or that --max-context allows
};
// The same with a model that has been started. `unwanted` as in follow_answer(). Throws ConfigError
// where prompt and answer have no room.
AnswerEnd continue_text(const ContinueOptions& options, const TextRoom& room,
                        serve::StartedModel& model, const std::function<bool()>& unwanted,
                        Console& console);

// "5,1,7", "5 1 7" or "[5, 1, 7]". Throws ConfigError for what is none, and for ids that the model
// does not have.
std::vector<int32_t> read_token_ids(const std::string& text, int64_t vocab);

}  // namespace tessera
