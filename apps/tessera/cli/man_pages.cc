#include "cli/man_pages.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "cli/help.h"
#include "cli/write_file.h"

namespace tessera {
namespace {

// Words as roff prints them: a minus that can be copied, no line that it would take for a request,
// ASCII for what old terminals lack.
std::string roff(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("…")) {
      out += "...";
      i += std::string_view("…").size() - 1;
    } else if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else if (text[i] == '\n') {
      out += "\n.br\n";
    } else {
      if (out.empty() && (text[i] == '.' || text[i] == '\'')) out += "\\&";
      out += text[i];
    }
  }
  return out;
}

// "tessera-data-synth"
std::string page_name(const CLI::App& app) {
  std::string name = full_name(app);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string in_capitals(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

std::string tagged(const std::string& tag, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(tag), roff(text));
}

// After "NAME - " comes a phrase: no capital, no full stop.
std::string as_phrase(std::string summary) {
  if (summary.ends_with('.')) summary.pop_back();
  const bool one_letter = summary.size() > 1 && (summary[1] < 'a' || summary[1] > 'z');
  if (!summary.empty() && summary[0] >= 'A' && summary[0] <= 'Z' && !one_letter) {
    summary[0] = static_cast<char>(summary[0] - 'A' + 'a');
  }
  return summary;
}

constexpr const char* kFiles =
    ".SH FILES\n.TP\n.I share/doc/tessera/examples\nrun files to start from, below the folder "
    "where "
    "tessera is installed: /usr for packages\n";

std::string see_also(const CLI::App& app) {
  std::string pages;
  const auto add = [&](const CLI::App& other) {
    pages += fmt::format("{}.BR {} (1)", pages.empty() ? "" : ",\n", roff(page_name(other)));
  };
  if (app.get_parent() != nullptr) add(*app.get_parent());
  for (const CLI::App* sub : subcommands_of(app)) add(*sub);
  return pages.empty() ? "" : fmt::format(".SH SEE ALSO\n{}\n", pages);
}

void write_pages(const CLI::App& app, const std::filesystem::path& dir, const std::string& version,
                 Console& console) {
  write_file((dir / (page_name(app) + ".1")).string(), man_page(app, version), console);
  for (const CLI::App* sub : subcommands_of(app)) write_pages(*sub, dir, version, console);
}

}  // namespace

std::string man_page(const CLI::App& app, const std::string& version) {
  std::string page = fmt::format(".TH {} 1 \"\" \"tessera {}\" \"User Commands\"\n",
                                 in_capitals(page_name(app)), version);
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(page_name(app)),
                      roff(as_phrase(app.get_description())));
  page += fmt::format(".SH SYNOPSIS\n.B {}\n", roff(usage_of(app)));
  page += fmt::format(".SH DESCRIPTION\n{}\n", roff(app.get_description()));
  const std::vector<const CLI::App*> commands = subcommands_of(app);
  if (!commands.empty()) page += ".SH COMMANDS\n";
  for (const CLI::App* command : commands) {
    page += tagged(command->get_name(), command->get_description());
  }
  page += ".SH OPTIONS\n";
  for (const CLI::Option* option : visible_options(app)) {
    page += tagged(heading_of(*option), option->get_description());
  }
  page += fmt::format(".SH EXAMPLES\n.nf\n{}\n.fi\n", roff(example_of(app)));
  if (app.get_parent() == nullptr) page += kFiles;
  return page + see_also(app);
}

void write_man_pages(const CLI::App& root, const std::string& dir, const std::string& version,
                     Console& console) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  require(!error, "cannot create '{}': {}", dir, error.message());
  write_pages(root, dir, version, console);
}

}  // namespace tessera
