#include <memory>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "text/continue_text.h"
#include "text/generate_command.h"

namespace tessera {
namespace {

constexpr int64_t kMostTokens = 1'000'000;
constexpr int64_t kMostInFlight = 4096;

void check_files(const GenerateCommandOptions& options) {
  const BatchFiles& files = options.files;
  require_config(!files.in.empty() && !files.out.empty(),
                 "--in and --out belong together: requests to answer, and where to write");
  require_config(options.prompt.empty() && !options.token_ids && !options.json,
                 "--in has the prompts and --out the answers, as JSON: leave out {}",
                 !options.prompt.empty() ? "--prompt"
                 : options.json          ? "--json"
                                         : "--token-ids");
  require_config(options.in_flight <= kMostInFlight, "--in-flight is {}: use 1 to {}",
                 options.in_flight, kMostInFlight);
}

}  // namespace

Command add_generate(CLI::App& root) {
  CLI::App* app = add_command(
      root, "generate",
      {"Continue a text with a trained model, or answer a file of requests.",
       "tessera generate --run runs/demo --prompt \"Once upon a time\"", "tessera chat DIR"});
  auto options = std::make_shared<GenerateCommandOptions>();
  add_text(*app, "--run", options->model.model, "DIR",
           "the run directory, a checkpoint, or a Hugging Face folder (required)");
  add_text(*app, "--prompt", options->prompt, "TEXT", "the text to continue");
  add_sampling_flags(*app, options->sampling,
                     "how many to add at most (default 200, or what the context has room for)");
  add_switch(*app, "--token-ids", options->token_ids,
             "prompt and text are ids of tokens: --prompt \"5,1,7\"");
  add_text(*app, "--in", options->files.in, "FILE.jsonl",
           "answer these instead: a request on each line, as to /v1/completions or "
           "/v1/chat/completions");
  add_output_file(*app, "--out", options->files.out, kAnswersOutput, "FILE.jsonl",
                  "where their answers go, in the same order; what is there is gone on with");
  add_switch(*app, "--overwrite", options->files.overwrite, "begin --out anew");
  add_whole(*app, "--in-flight", options->in_flight, 1,
            "requests of --in that are worked on at once, at most (default 128)");
  add_model_flags(*app, options->model, /*chats=*/true);
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_generate(*options, console); }};
}

int run_generate(const GenerateCommandOptions& options, Console& console) {
  require_config(!options.model.model.empty(), "generate needs --run DIR, such as runs/demo");
  check_sampling(options.sampling);
  require_config(options.sampling.tokens <= kMostTokens, "--tokens is {}: use 1 to {}",
                 options.sampling.tokens, kMostTokens);
  if (!options.files.in.empty() || !options.files.out.empty()) {
    check_files(options);
    return answer_file({.model = options.model,
                        .sampling = options.sampling,
                        .files = options.files,
                        .in_flight = options.in_flight},
                       console);
  }
  require_config(!options.prompt.empty(), "generate needs --prompt TEXT of at least one byte");
  return continue_text({.model = options.model,
                        .sampling = options.sampling,
                        .prompt = options.prompt,
                        .token_ids = options.token_ids,
                        .json = options.json},
                       console);
}

}  // namespace tessera
