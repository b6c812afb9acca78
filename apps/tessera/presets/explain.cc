#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/flags.h"
#include "cli/help.h"
#include "cli/surroundings.h"
#include "cost/explain/topic.h"
#include "presets/explain_command.h"

namespace tessera {
namespace {

std::string kind_of(const Parameter& parameter) {
  if (parameter.kind == Parameter::Kind::kText) return "NAME";
  if (parameter.kind == Parameter::Kind::kReals) return "X,X";
  switch (parameter.unit) {
    case Unit::kBytes:
      return "BYTES";
    case Unit::kBytesPerSecond:
      return "BYTES/S";
    case Unit::kFlopsPerSecond:
      return "FLOP/S";
    case Unit::kSeconds:
      return "TIME";
    default:
      return parameter.kind == Parameter::Kind::kWhole ? "N" : "X";
  }
}

std::string help_of(const Parameter& parameter) {
  std::string text(parameter.help);
  if (!parameter.fallback.empty()) text += fmt::format(" (default {})", parameter.fallback);
  return text;
}

// The text of every flag, and which of them were given.
struct TopicFlags {
  GivenTexts texts;
  std::vector<std::pair<std::string, const CLI::Option*>> options;
  bool json = false;

  [[nodiscard]] GivenTexts given() const {
    GivenTexts result;
    for (const auto& [name, option] : options) {
      if (was_given(*option)) result[name] = texts.at(name);
    }
    return result;
  }
};

Command add_topic(CLI::App& parent, const Topic& topic) {
  const std::string name = fmt::format("{} {}", full_name(parent), topic.name);
  CLI::App* app =
      add_command(parent, std::string(topic.name),
                  {std::string(topic.summary), fmt::format("{} {}", name, topic.example),
                   fmt::format("{} --json", name)});
  auto flags = std::make_shared<TopicFlags>();
  for (const Parameter& parameter : topic.parameters) {
    const std::string flag(parameter.name);
    CLI::Option* option =
        add_text(*app, "--" + flag, flags->texts[flag], kind_of(parameter), help_of(parameter));
    flags->options.emplace_back(flag, option);
  }
  add_switch(*app, "--json", flags->json, "print JSON");
  return {app, [flags, &topic](Console& console) {
            const ExplainOptions options{{std::string(topic.name), flags->given()}, flags->json};
            return run_explain(options, console);
          }};
}

}  // namespace

std::vector<Command> add_explain(CLI::App& root) {
  CLI::App* app =
      add_command(root, "explain",
                  {"Calculators: the formula, the numbers put in, and the result.",
                   "tessera explain zero --model llama-3-8b --ranks 64", "tessera explain memory"});
  // The same under the benches, where formulas stand beside measurements.
  CLI::App* formula = add_command(
      command_of(root, "bench"), "formula",
      {"The same as 'tessera explain'.", "tessera bench formula ring --bytes 140GB --ranks 32",
       "tessera explain --help"});
  std::vector<Command> commands;
  for (CLI::App* parent : {app, formula}) {
    for (const Topic& topic : topics()) commands.push_back(add_topic(*parent, topic));
  }
  return commands;
}

int run_explain(const ExplainOptions& options, Console& console) {
  const Explanation explanation = explain(options.query, console_surroundings());
  console.out << (options.json ? explain_json(explanation).dump(2) + '\n'
                               : fitted(console, text_of(explanation)));
  return 0;
}

}  // namespace tessera
