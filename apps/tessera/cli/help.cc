#include "cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "base/text/printable.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/mistakes/mistaken_words.h"

namespace tessera {
namespace {

constexpr size_t kColumn = 30;

std::string two_columns(const std::string& left, const std::string& right) {
  if (left.size() + 4 <= kColumn) return fmt::format("  {:<{}}{}\n", left, kColumn - 2, right);
  return fmt::format("  {}\n{:{}}{}\n", left, "", kColumn, right);
}

class HelpFormatter final : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(HelpText text) : text_(std::move(text)) {}

  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string help = fmt::format("Example: {}\n\n{}\n\nUsage: {}\n", text_.example, text_.summary,
                                   usage_of(*app));
    const std::vector<const CLI::App*> commands = subcommands_of(*app);
    if (!commands.empty()) help += "\nCommands:\n";
    for (const CLI::App* command : commands) {
      help += two_columns(command->get_name(), command->get_description());
    }
    help += "\nOptions:\n";
    for (const CLI::Option* option : visible_options(*app)) {
      help += two_columns(heading_of(*option), option->get_description());
    }
    if (app->get_parent() != nullptr) help += "  also -q and --color: see tessera --help\n";
    return help + fmt::format("\nNext: {}\n", text_.next);
  }

  [[nodiscard]] const std::string& example() const { return text_.example; }

 private:
  HelpText text_;
};

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : visible_options(*at)) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string found = nearest_name(word, names);
  return found.empty() ? found : fmt::format("; did you mean '{}'?", found);
}

}  // namespace

void set_help(CLI::App& app, const HelpText& text) {
  app.description(text.summary);
  app.formatter(std::make_shared<HelpFormatter>(text));
}

CLI::App* add_command(CLI::App& parent, const std::string& name, const HelpText& text) {
  CLI::App* app = parent.add_subcommand(name);
  set_help(*app, text);
  return app;
}

CLI::App& command_of(CLI::App& parent, const std::string& name) {
  return *parent.get_subcommand(name);
}

std::string help_of(const CLI::App& app) {
  return app.get_formatter()->make_help(&app, "", CLI::AppFormatMode::Normal);
}

std::string example_of(const CLI::App& app) {
  return dynamic_cast<const HelpFormatter&>(*app.get_formatter()).example();
}

std::string heading_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_type_name();
  std::string names;
  for (const std::string& name : option.get_snames()) names += fmt::format("-{}, ", name);
  for (const std::string& name : option.get_lnames()) names += fmt::format("--{}, ", name);
  names.resize(names.size() - 2);
  return takes_value(option) ? fmt::format("{} {}", names, option.get_type_name()) : names;
}

std::string usage_of(const CLI::App& app) {
  std::string line = full_name(app);
  if (!subcommands_of(app).empty()) line += " COMMAND";
  for (const CLI::Option* option : visible_options(app)) {
    if (option->get_positional()) line += " " + option->get_type_name();
  }
  return line + " [options]";
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App& reached_command(const CLI::App& root) {
  const std::vector<CLI::App*> parsed = root.get_subcommands();
  return parsed.empty() ? root : reached_command(*parsed.back());
}

std::vector<const CLI::Option*> visible_options(const CLI::App& app) {
  std::vector<const CLI::Option*> options =
      app.get_options([](const CLI::Option* option) { return !is_hidden(*option); });
  std::stable_partition(options.begin(), options.end(),
                        [](const CLI::Option* option) { return option->get_positional(); });
  return options;
}

namespace {

// What people who know other systems type, and what they can do here.
std::string other_name_of_resume(const CLI::App& command, std::string_view option) {
  constexpr std::array<std::string_view, 6> kResume = {"--resume",  "--continue", "--load",
                                                       "--restore", "--restart",  "--checkpoint"};
  // "--resume-from", "--load-checkpoint" and the like as well.
  const bool resumes = std::any_of(kResume.begin(), kResume.end(), [&](std::string_view word) {
    return option.starts_with(word) && (option.size() == word.size() ||
                                        option[word.size()] == '-' || option[word.size()] == '_');
  });
  if (!resumes || command.get_name() != "train") return "";
  return fmt::format(
      "{}: a run goes on from its newest checkpoint with --resume auto, from a named one with "
      "--resume PATH. To start a new one from the weights of runs/NAME, use --set "
      "model.hf=runs/NAME: its optimizer starts anew, and the text from the beginning",
      option);
}

}  // namespace

std::string unknown_word(const CLI::App& command, const std::string& word) {
  const std::string see = fmt::format(" (see '{} --help')", full_name(command));
  if (word.size() > 1 && word.front() == '-') {
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> known = option_names(command);
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      return fmt::format("option '{}' goes after the command: {} {}", name, full_name(command),
                         name);
    }
    if (const std::string answer = other_name_of_resume(command, name); !answer.empty())
      return answer;
    std::string meant = flag_meant(command, name);
    if (meant.empty()) meant = did_you_mean(name, known);
    if (meant.empty()) meant = flags_there_are(command);
    return fmt::format("unknown option '{}'{}{}", shortened(name), meant, see);
  }
  std::vector<std::string> names;
  for (const CLI::App* sub : subcommands_of(command)) names.push_back(sub->get_name());
  if (names.empty()) {
    return fmt::format("unexpected argument '{}'{}{}", shortened(word),
                       argument_meant(command, word), see);
  }
  const std::string meant = command_meant(command, word);
  return fmt::format("unknown command '{}'{}{}", shortened(word),
                     meant.empty() ? did_you_mean(word, names) : meant, see);
}

std::string usage_message(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& command = reached_command(root);
  const std::vector<std::string> unknown = root.remaining(/*recurse=*/true);
  if (!unknown.empty()) return unknown_word(command, unknown.front());
  // CLI11 starts these messages with the option's name and a colon.
  const std::string_view what = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::string required(what.substr(0, what.find(' ')));
    const CLI::Option* option = command.get_option_no_throw(required);
    return fmt::format("{} is missing: {}, as in '{}' (see '{} --help')",
                       option == nullptr ? required : heading_of(*option), usage_of(command),
                       example_of(command), full_name(command));
  }
  const std::string_view start = what.substr(0, what.find(':'));
  const std::string_view name = start.empty() ? "an option" : start;
  const bool lacks_value = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // "Could not convert: --json = maybe"; values of options are read by flags.cc.
    const std::string_view rest = what.substr(std::min(what.find("--"), what.size()));
    return fmt::format("{} is a switch: write it without a value (see '{} --help')",
                       rest.substr(0, rest.find(' ')), full_name(command));
  }
  const std::string switch_name = fmt::format("{}-only", name);
  const std::vector<std::string> known = option_names(command);
  if (lacks_value && std::find(known.begin(), known.end(), switch_name) != known.end()) {
    return fmt::format("{} needs a value; '{}' takes none (see '{} --help')", name, switch_name,
                       full_name(command));
  }
  return fmt::format("{} {} (see '{} --help')", name,
                     lacks_value ? "needs a value" : "cannot be used like this",
                     full_name(command));
}

}  // namespace tessera
