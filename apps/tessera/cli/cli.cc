#include "cli/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "api/schema.h"
#include "base/error.h"
#include "base/failure.h"
#include "base/text/printable.h"
#include "cli/completion.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/man_pages.h"
#include "cli/mistakes/pasted_arguments.h"
#include "cli/output_flags.h"
#include "cli/printable_stream.h"
#include "tensor/cpu_level.h"

namespace tessera {
namespace {

// Colors, and what redraws a line of progress.
constexpr std::array<std::string_view, 4> kOwnSequences = {"\033[1;31m", "\033[0m", "\033[K", "\r"};

// Reports are JSON or text in UTF-8; only a prompt may be any bytes.
void require_text(const std::vector<std::string>& args) {
  if (!args.empty() && args.front() == "generate") return;
  for (const std::string& arg : args) {
    for (std::string_view rest = arg; !rest.empty();) {
      const Character character = first_character(rest);
      require_config(character.valid, "'{}' is not UTF-8: type it in a terminal that uses UTF-8",
                     shortened(arg));
      rest.remove_prefix(character.bytes);
    }
  }
}

const CLI::App& find_command(const CLI::App& parent, const std::string& name) {
  for (const CLI::App* sub : subcommands_of(parent)) {
    if (sub->get_name() == name) return *sub;
  }
  throw ConfigError(unknown_word(parent, name));
}

// `tessera help data synth` is `tessera data synth --help`.
Command add_help(CLI::App& root) {
  CLI::App* app = add_command(
      root, "help", {"Show the help of a command.", "tessera help train", "tessera help plan"});
  auto words = std::make_shared<std::vector<std::string>>();
  auto pages = std::make_shared<std::string>();
  add_list(*app, "command", *words, "[COMMAND]", "the command, such as 'data synth'");
  add_output_folder(*app, "--man", *pages, "write manual pages of all commands to DIR instead");
  return {app, [words, pages, &root](Console& console) {
            require_config(pages->empty() || words->empty(),
                           "--man writes the pages of all commands: leave out '{}'",
                           fmt::join(*words, " "));
            if (!pages->empty()) {
              write_man_pages(root, *pages, TESSERA_VERSION, console);
              return 0;
            }
            const CLI::App* at = &root;
            for (const std::string& word : *words) at = &find_command(*at, word);
            console.out << fitted(console, help_of(*at));
            return 0;
          }};
}

int print_version(Console& console) {
  console.out << fmt::format("tessera {} (schema {})\n", TESSERA_VERSION, kSchemaVersion);
  return 0;
}

Command add_version(CLI::App& root) {
  CLI::App* app =
      add_command(root, "version", {"Show the version.", "tessera version", "tessera doctor"});
  return {app, print_version};
}

struct Tree {
  CLI::App root{"", "tessera"};
  std::vector<Command> commands;
  bool version = false;

  Tree(Console& console, const Environment& environment, AddCommands add) {
    set_help(root, {"Train transformer language models over many ranks, planned to the byte.",
                    "tessera train examples/demo.toml", "tessera plan examples/demo.toml"});
    root.set_help_flag("-h,--help", "show this help");
    add_switch(root, "-V,--version", version, "show the version");
    add_switch(root, "-q,--quiet", console.quiet, "no progress, only results and errors");
    add_choice(root, "--color", console.color, "auto|always|never", "color messages");
    // Global flags may also follow the command.
    root.fallthrough();
    root.require_subcommand(0, 1);
    commands = add(root, environment);
    for (auto own : {add_completion, add_version, add_help}) commands.push_back(own(root));
  }
};

int run_parsed(Tree& tree, Console& console) {
  if (tree.version) return print_version(console);
  const CLI::App& reached = reached_command(tree.root);
  const auto command = std::find_if(tree.commands.begin(), tree.commands.end(),
                                    [&](const Command& c) { return c.app == &reached; });
  if (command == tree.commands.end()) {
    console.err << fitted_err(console, help_of(reached));
    return static_cast<int>(ExitCode::kUsage);
  }
  const int code = command->run(console);
  console.out.flush();
  const bool written =
      console.out.good() && (console.raw_out == nullptr || console.raw_out->good());
  require(code != 0 || written, "cannot write to standard output: is the disk full?");
  return code;
}

int parse_and_run(std::vector<std::string> args, Console& console, const Environment& environment,
                  AddCommands add) {
  Tree tree(console, environment, add);
  std::reverse(args.begin(), args.end());  // the order CLI11 wants
  try {
    tree.root.parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    console.out << fitted(console, help_of(reached_command(tree.root)));
    return 0;
  } catch (const CLI::ParseError& error) {
    throw ConfigError(usage_message(tree.root, error));
  }
  return run_parsed(tree, console);
}

}  // namespace

int run_cli(const std::vector<std::string>& args, Console& console, const Environment& environment,
            AddCommands add) {
  PrintableStream out(console.out);
  PrintableStream err(console.err, kOwnSequences);
  err << std::unitbuf;
  Console filtered{.out = out,
                   .err = err,
                   .err_is_terminal = console.err_is_terminal,
                   .out_is_terminal = console.out_is_terminal,
                   .color_wanted = console.color_wanted,
                   .color = console.color,
                   .quiet = console.quiet,
                   .out_columns = console.out_columns,
                   .err_columns = console.err_columns,
                   .raw_out = &console.out};
  try {
    require_text(args);
    refuse_pasted(args);
    const auto level = environment.find("TESSERA_CPU_LEVEL");
    if (level != environment.end()) use_cpu_level(level->second);
    return parse_and_run(args, filtered, environment, add);
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    report_failure(filtered, failure.text);
    return static_cast<int>(failure.code);
  }
}

}  // namespace tessera
