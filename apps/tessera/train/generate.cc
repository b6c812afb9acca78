#include "train/verify/generate.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "train/generate_command.h"

namespace tessera {
namespace {

constexpr int64_t kMostTokens = 1'000'000;  // all of them are there before the first is shown

}  // namespace

Command add_generate(CLI::App& root) {
  CLI::App* app = add_command(root, "generate",
                              {"Continue a text with a trained model.",
                               "tessera generate --run runs/demo --prompt \"Once upon a time\"",
                               "tessera train examples/demo.toml --set train.steps=500"});
  auto options = std::make_shared<GenerateCommandOptions>();
  add_text(*app, "--run", options->run_dir, "DIR", "the run directory, or a checkpoint (required)");
  add_text(*app, "--prompt", options->prompt, "TEXT", "the text to continue (required)");
  add_whole(*app, "--tokens", options->tokens, 1, "how many to add (default 200)");
  add_real(*app, "--temperature", options->temperature, 0,
           "0 takes the most likely token, 1 samples as trained (default 0.8)");
  add_whole(*app, "--top-k", options->top_k, 0, "choose among this many; 0 is all (default)");
  add_whole(*app, "--seed", options->seed, 0, "the same seed gives the same text (default 1)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_generate(*options, console); }};
}

int run_generate(const GenerateCommandOptions& options, Console& console) {
  require_config(!options.run_dir.empty(), "generate needs --run DIR, such as runs/demo");
  require_config(!options.prompt.empty(), "generate needs --prompt TEXT of at least one byte");
  require_config(options.tokens <= kMostTokens, "--tokens is {}: use 1 to {}", options.tokens,
                 kMostTokens);
  GenerateOptions generation;
  generation.run_dir = options.run_dir;
  generation.prompt = options.prompt;
  generation.tokens = options.tokens;
  generation.temperature = options.temperature;
  generation.top_k = options.top_k;
  generation.seed = static_cast<uint64_t>(options.seed);
  bool shown = false;
  if (!options.json) {
    generation.on_text = [&](const std::string& part) {
      shown = true;
      console.out << part << std::flush;
    };
  }
  const std::string text = generate(generation);
  if (!options.json) {
    // A model of bytes may say anything: a terminal gets it filtered, a file as it is.
    const bool raw = !console.out_is_terminal && console.raw_out != nullptr;
    if (shown) {
      console.out << '\n';
    } else {
      (raw ? *console.raw_out : console.out) << text << '\n';
    }
    return 0;
  }
  nlohmann::ordered_json json;
  json["schema_version"] = kSchemaVersion;
  json["kind"] = "generation";
  json["prompt"] = options.prompt;
  json["text"] = text;
  // A model of bytes may stop inside a character.
  console.out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  return 0;
}

}  // namespace tessera
