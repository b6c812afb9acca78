#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/show/topic.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/surroundings.h"
#include "show/show_command.h"

namespace tessera {
namespace {

using Kind = ShowField::Kind;

std::string flag_of(const ShowField& field) {
  std::string flag = "--" + std::string(field.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string value_name(const ShowField& field) {
  if (!field.value_name.empty()) return std::string(field.value_name);
  switch (field.kind) {
    case Kind::kWhole:
    case Kind::kSize:
      return "N";
    case Kind::kReal:
      return "X";
    case Kind::kReals:
      return "X,X";
    case Kind::kChoice:
      return std::string(field.choices);
    case Kind::kJson:
      return "JSON";
    default:
      return "NAME";
  }
}

std::string help_text(const ShowField& field) {
  std::string text(field.help);
  if (!field.fallback.empty()) text += fmt::format(" (default {})", field.fallback);
  return text;
}

// The texts of the flags, and which of them were given. Addresses are kept by CLI11.
struct ShowFlags {
  std::map<std::string, std::string> texts;
  std::map<std::string, bool> truths;
  std::map<std::string, std::vector<std::string>> lists;
  std::vector<std::pair<std::string, const CLI::Option*>> options;
  bool json = false;

  void add(CLI::App& app, const ShowField& field) {
    const std::string key(field.name);
    if (field.kind == Kind::kTruth) {
      options.emplace_back(key, add_switch(app, flag_of(field), truths[key], help_text(field)));
      return;
    }
    if (field.kind == Kind::kTexts) {
      options.emplace_back(
          key, add_list(app, flag_of(field), lists[key], value_name(field), help_text(field)));
      return;
    }
    options.emplace_back(
        key, add_text(app, flag_of(field), texts[key], value_name(field), help_text(field)));
  }

  // As the topic reads it: values stay the texts that they are.
  [[nodiscard]] nlohmann::json request() const {
    nlohmann::json request = nlohmann::json::object();
    for (const auto& [key, option] : options) {
      if (!was_given(*option)) continue;
      if (truths.contains(key)) {
        request[key] = truths.at(key);
      } else if (lists.contains(key)) {
        request[key] = lists.at(key);
      } else {
        request[key] = texts.at(key);
      }
    }
    return request;
  }
};

Command add_shown(CLI::App& parent, const ShowTopic& topic) {
  const std::string name = fmt::format("{} {}", full_name(parent), topic.name);
  CLI::App* app =
      add_command(parent, std::string(topic.name),
                  {std::string(topic.summary), fmt::format("{} {}", name, topic.example),
                   fmt::format("{} --json", name)});
  auto flags = std::make_shared<ShowFlags>();
  for (const ShowField& field : topic.fields) flags->add(*app, field);
  add_switch(*app, "--json", flags->json, "print JSON");
  return {app, [flags, &topic](Console& console) {
            const Surroundings around = console_surroundings();
            console.out << (flags->json
                                ? show_json(topic, flags->request(), around).dump(2) + '\n'
                                : fitted(console, show_text(topic, flags->request(), around)));
            return 0;
          }};
}

}  // namespace

std::vector<Command> add_show(CLI::App& root) {
  CLI::App* app =
      add_command(root, "show",
                  {"What the algorithms do, step by step: schedules, collectives, splits, numbers.",
                   "tessera show schedule --schedule zb-h1 --ranks 4 --micro-batches 8",
                   "tessera show schedule --help"});
  std::vector<Command> commands;
  for (const ShowTopic& topic : show_topics()) commands.push_back(add_shown(*app, topic));
  return commands;
}

}  // namespace tessera
