#include "cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"

namespace tessera {
namespace {

std::vector<const CLI::App*> all_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands = {&app};
  for (const CLI::App* sub : subcommands_of(app)) {
    for (const CLI::App* inner : all_commands(*sub)) commands.push_back(inner);
  }
  return commands;
}

// A command's own options and the global ones.
std::vector<const CLI::Option*> options_of(const CLI::App& root, const CLI::App& app) {
  std::vector<const CLI::Option*> options = visible_options(app);
  if (&app == &root) return options;
  for (const CLI::Option* option : visible_options(root)) {
    if (option->check_lname("quiet") || option->check_lname("color")) options.push_back(option);
  }
  return options;
}

std::vector<std::string> flags_of(const CLI::Option& option) {
  std::vector<std::string> flags;
  for (const std::string& name : option.get_snames()) flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flags.push_back("--" + name);
  return flags;
}

// What may stand where a word of `app` is expected: commands, flags, choices of positionals.
std::string words_of(const CLI::App& root, const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : subcommands_of(app)) words.push_back(sub->get_name());
  for (const CLI::Option* option : options_of(root, app)) {
    const std::vector<std::string> more =
        option->get_positional() ? choices_of(*option) : flags_of(*option);
    words.insert(words.end(), more.begin(), more.end());
  }
  return fmt::format("{}", fmt::join(words, " "));
}

// Shell `case` arms shared by bash and zsh; `here` is the variable with the words so far.
std::string descend_cases(const CLI::App& root) {
  std::string cases;
  for (const CLI::App* app : all_commands(root)) {
    if (app == &root) continue;
    cases += fmt::format("{}\"{}\"", cases.empty() ? "" : "|", full_name(*app));
  }
  return fmt::format("      {}) here=\"$here $word\" ;;\n", cases);
}

std::string word_cases(const CLI::App& root) {
  std::string cases;
  for (const CLI::App* app : all_commands(root)) {
    cases += fmt::format("    \"{}\") known=\"{}\" ;;\n", full_name(*app), words_of(root, *app));
  }
  return cases;
}

// After a flag that takes a value come its choices, or file names.
std::string value_cases(const CLI::App& root) {
  std::string cases;
  for (const CLI::App* app : all_commands(root)) {
    for (const CLI::Option* option : options_of(root, *app)) {
      if (option->get_positional() || !takes_value(*option)) continue;
      for (const std::string& flag : flags_of(*option)) {
        cases += fmt::format("    \"{} {}\") known=\"{}\" ;;\n", full_name(*app), flag,
                             fmt::join(choices_of(*option), " "));
      }
    }
  }
  return cases;
}

// The function that bash and zsh complete with: `words` are those before the cursor, `last` is the
// one right before it, and `offers` are lines that hand over what is $known.
std::string completing_function(const CLI::App& root, const std::string& words,
                                const std::string& last, const std::string& offers) {
  return "_tessera() {\n"
         "  local here=tessera word known\n"
         "  for word in " +
         words +
         "; do\n"
         "    case \"$here $word\" in\n" +
         descend_cases(root) +
         "    esac\n"
         "  done\n"
         "  case $here in\n" +
         word_cases(root) +
         "  esac\n"
         "  case \"$here " +
         last + "\" in\n" + value_cases(root) + "  esac\n" + offers + "}\n";
}

std::string bash_script(const CLI::App& root) {
  return "# bash completion for tessera: eval \"$(tessera completion bash)\"\n" +
         completing_function(
             root, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"", "${COMP_WORDS[COMP_CWORD-1]}",
             "  COMPREPLY=($(compgen -W \"$known\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n") +
         "complete -o default -F _tessera tessera\n";
}

std::string zsh_script(const CLI::App& root) {
  return "#compdef tessera\n"
         "# zsh completion for tessera: eval \"$(tessera completion zsh)\"\n" +
         completing_function(root, "${words[2,CURRENT-1]}", "${words[CURRENT-1]}",
                             "  compadd -- ${=known}\n"
                             "  _files\n") +
         "compdef _tessera tessera\n";
}

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// True in fish while the words so far are those of `app` and no further command.
std::string fish_condition(const CLI::App& root, const CLI::App& app) {
  std::string condition;
  for (const CLI::App* at = &app; at != &root; at = at->get_parent()) {
    condition = fmt::format("__fish_seen_subcommand_from {}{}{}", at->get_name(),
                            condition.empty() ? "" : "; and ", condition);
  }
  const std::vector<const CLI::App*> subs = subcommands_of(app);
  if (subs.empty()) return condition;
  std::string names;
  for (const CLI::App* sub : subs) names += " " + sub->get_name();
  return fmt::format("{}{}not __fish_seen_subcommand_from{}", condition,
                     condition.empty() ? "" : "; and ", names);
}

std::string fish_option(const CLI::Option& option, const std::string& condition) {
  const std::vector<std::string> choices = choices_of(option);
  const std::string values = fmt::format("{}", fmt::join(choices, " "));
  std::string line = fmt::format("complete -c tessera -n {}", fish_quoted(condition));
  if (option.get_positional()) {
    return choices.empty() ? "" : fmt::format("{} -f -a {}\n", line, fish_quoted(values));
  }
  for (const std::string& name : option.get_snames()) line += " -s " + name;
  for (const std::string& name : option.get_lnames()) line += " -l " + name;
  if (takes_value(option)) line += " -r";
  if (!choices.empty()) line += " -f -a " + fish_quoted(values);
  return fmt::format("{} -d {}\n", line, fish_quoted(option.get_description()));
}

std::string fish_script(const CLI::App& root) {
  std::string script = "# fish completion for tessera: tessera completion fish | source\n";
  for (const CLI::App* app : all_commands(root)) {
    const std::string condition = fish_condition(root, *app);
    for (const CLI::App* sub : subcommands_of(*app)) {
      script += fmt::format("complete -c tessera -n {} -f -a {} -d {}\n", fish_quoted(condition),
                            sub->get_name(), fish_quoted(sub->get_description()));
    }
    for (const CLI::Option* option : options_of(root, *app)) {
      script += fish_option(*option, condition);
    }
  }
  return script;
}

}  // namespace

std::string completion_script(const CLI::App& root, const std::string& shell) {
  if (shell == "bash") return bash_script(root);
  if (shell == "zsh") return zsh_script(root);
  require_config(shell == "fish", "no completion for '{}': use bash, zsh or fish", shell);
  return fish_script(root);
}

Command add_completion(CLI::App& root) {
  CLI::App* app = add_command(root, "completion",
                              {"Print a script that completes commands and flags in your shell.",
                               "eval \"$(tessera completion bash)\"", "tessera --help"});
  auto shell = std::make_shared<std::string>();
  add_choice(*app, "shell", *shell, "bash|zsh|fish", "the shell");
  return {app, [shell, &root](Console& console) {
            require_config(!shell->empty(), "no shell given: tessera completion bash|zsh|fish");
            console.out << completion_script(root, *shell);
            return 0;
          }};
}

}  // namespace tessera
