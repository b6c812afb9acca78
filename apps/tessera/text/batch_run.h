// Answers to a file of requests, many at a time, written in the order of the file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/terminal.h"
#include "serve/start/start_model.h"
#include "text/answer_lines.h"
#include "text/model_flags.h"
#include "text/sampling_flags.h"

namespace tessera {

struct BatchFiles {
  std::string in;
  std::string out;
  bool overwrite = false;
};

struct AnswerFileOptions {
  ModelFlags model = {};
  SamplingFlags sampling = {};  // of requests that do not say
  BatchFiles files;
  int64_t in_flight = 128;
};

// Starts the model and answers what has no answer yet. Returns the exit code: 1 where any answer is
// an error, that of the signal where one came.
int answer_file(const AnswerFileOptions& options, Console& console);

struct BatchOutcome {
  int64_t answers = 0;  // that are in the file now
  int64_t errors = 0;   // of them
  int64_t tokens = 0;   // of answers, in this run
  bool stopped = false;
};
// The same with a model that has been started, behind what the file has; `found` is that, `total`
// how many requests there are (0: not known). Throws where the model will answer no more; what is
// written stays.
BatchOutcome answer_requests(const AnswerFileOptions& options, serve::StartedModel& model,
                             RequestLines& requests, AnswerLines& answers, AnswerLines::Found found,
                             int64_t total, const std::function<bool()>& unwanted,
                             Console& console);

}  // namespace tessera
