#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output_flags.h"
#include "data/data_chat.h"
#include "data/data_command.h"
#include "data/data_samples.h"
#include "data/data_sets.h"
#include "data/synth.h"
#include "data/tokenizer_command.h"

namespace tessera {
namespace {

constexpr int64_t kMostBytes = 16'000'000'000;  // they are made in memory

}  // namespace

std::vector<Command> add_data(CLI::App& root) {
  CLI::App* data = add_command(root, "data",
                               {"Make training data, and look at it.",
                                "tessera data synth -o stories.txt", "tessera data synth --help"});
  CLI::App* synth = add_command(*data, "synth",
                                {"Write simple synthetic stories, the same for the same seed.",
                                 "tessera data synth --seed 7 --bytes 1000000 -o stories.txt",
                                 "tessera train examples/demo.toml --set data.path=stories.txt"});
  auto options = std::make_shared<SynthOptions>();
  add_whole(*synth, "--seed", options->seed, 0, "which stories (default 1)");
  add_bytes(*synth, "--bytes", options->bytes, kMostBytes, "how much text (default 4000000)");
  add_output_file(*synth, "-o,--output", options->output, kTextOutput, "FILE",
                  "where to; - is standard output (default)");
  std::vector<Command> commands = {
      {synth, [options](Console& console) { return run_synth(*options, console); }},
      add_data_chat(*data),
      add_data_samples(*data)};
  for (Command& command : add_set_commands(*data)) commands.push_back(std::move(command));
  for (Command& command : add_tokenizer_commands(*data)) commands.push_back(std::move(command));
  return commands;
}

int run_synth(const SynthOptions& options, Console& console) {
  const std::string text = synth_stories(static_cast<uint64_t>(options.seed), options.bytes);
  if (options.output == "-") {
    console.out << text;
    return 0;
  }
  std::ofstream file(options.output, std::ios::binary);
  require(file.good(), "cannot create '{}': {}", options.output, std::strerror(errno));
  file << text << std::flush;
  require(file.good(), "cannot write {} bytes to '{}': {}", text.size(), options.output,
          std::strerror(errno));
  if (!console.quiet)
    console.err << "wrote " << text.size() << " bytes to " << options.output << '\n';
  return 0;
}

}  // namespace tessera
