// `tessera chat`.
#pragma once

#include <string>

#include "cli/command.h"
#include "serve/start/start_model.h"
#include "text/line_source.h"
#include "text/model_flags.h"
#include "text/sampling_flags.h"

namespace tessera {

struct ChatOptions {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
};
Command add_chat(CLI::App& root);
int run_chat(const ChatOptions& options, Console& console);

// Talks until the lines end. `typed`: somebody sits before it, and mistakes are told and not fatal.
int converse(const ChatOptions& options, serve::StartedModel& model, LineSource& lines, bool typed,
             Console& console);

}  // namespace tessera
