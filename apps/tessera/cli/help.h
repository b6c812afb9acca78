// Help texts and messages about mistakes on the command line, made by walking the CLI11 tree.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace CLI {
class ParseError;
}  // namespace CLI

namespace tessera {

// Every help begins with an example and ends with the next command to try.
struct HelpText {
  std::string summary;  // one sentence
  std::string example;  // a command line
  std::string next;     // a command line
};
void set_help(CLI::App& app, const HelpText& text);
// A new command under `parent`.
CLI::App* add_command(CLI::App& parent, const std::string& name, const HelpText& text);
// The command of this name, which is there.
CLI::App& command_of(CLI::App& parent, const std::string& name);
// App::help() would go on to the command that the line reached.
std::string help_of(const CLI::App& app);

// The command line that its help begins with.
std::string example_of(const CLI::App& app);
// An option as help and manual pages head its line: "--mesh SPEC".
std::string heading_of(const CLI::Option& option);
// The usage without its "Usage: ": "tessera plan [FILE] [options]".
std::string usage_of(const CLI::App& app);

// The command's own words: "tessera data synth".
std::string full_name(const CLI::App& app);
std::vector<const CLI::App*> subcommands_of(const CLI::App& app);
// The last command the line reached: "tessera data synth -x" reaches synth.
const CLI::App& reached_command(const CLI::App& root);
// Options that help shows, positional arguments first.
std::vector<const CLI::Option*> visible_options(const CLI::App& app);

// One line about a word that no option or command of `command` is: the nearest known name.
std::string unknown_word(const CLI::App& command, const std::string& word);
// One line for the mistake CLI11 stopped at.
std::string usage_message(const CLI::App& root, const CLI::ParseError& error);

}  // namespace tessera
