// For tests: Jinja2 itself, where python3 has it (Debian: python3-jinja2).
#pragma once

#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tessera::testing {

struct TemplateCase {
  std::string source;
  nlohmann::ordered_json context;
};

struct TemplateAnswer {
  std::optional<std::string> error;  // then there is no text
  std::string text;
  nlohmann::json spans = nlohmann::json::array();  // [[begin, end], ...] in bytes
};

bool have_jinja2();
// One answer for each case.
std::vector<TemplateAnswer> ask_jinja2(const std::string& source_dir,
                                       const std::vector<TemplateCase>& cases);

// What this program makes of it, with the oracle's date.
TemplateAnswer ask_tessera(const TemplateCase& one);
std::tm oracle_time();

}  // namespace tessera::testing
