// Flags of commands that answer with a model: which one it is, and how it is spread over ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/terminal.h"
#include "serve/ranks/host_options.h"
#include "serve/start/speech.h"
#include "serve/start/start_model.h"

namespace tessera {

struct ModelFlags {
  std::string model;          // a run directory, a checkpoint or a folder of Hugging Face
  std::string tokenizer;      // a folder, in place of the model's own
  std::string chat_template;  // a file, in place of the model's own
  std::string dtype = "f32";
  std::string mesh;  // "tp=2,pp=2"; empty: one rank
  int64_t threads = 0;
  int64_t max_context = 0;  // 0: not said
};

// All but the model itself. `chats`: with a template.
void add_model_flags(CLI::App& app, ModelFlags& flags, bool chats);

// Ranks are threads of this process. Throws ConfigError for a mesh that cannot serve.
serve::StartOptions start_options(const ModelFlags& flags);

// What the model speaks. Throws ConfigError also where the tokenizer of a checkpoint is not there.
serve::Speech speech_of(const ModelFlags& flags, const ModelFolder& folder);

// Null where `unwanted` said so before the model was ready. Throws what start_model() throws.
std::unique_ptr<serve::StartedModel> start_unless(const std::function<bool()>& unwanted,
                                                  serve::StartOptions options);

// --max-context. Throws ConfigError where the model has no positions for it.
int64_t checked_context(const ModelFlags& flags, const serve::ContextLimits& limits);
// Says on console.err where texts of `context` tokens are longer than what the model was made for.
void warn_beyond(int64_t context, const ModelFlags& flags, const serve::ContextLimits& limits,
                 Console& console);
// The longest text that these flags allow: what they say, else what the model was made for; with
// both of the above.
int64_t context_of(const ModelFlags& flags, const serve::ContextLimits& limits, Console& console);

}  // namespace tessera
