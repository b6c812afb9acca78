#include "data/testing/template_oracle.h"

#include <cstdlib>
#include <stdexcept>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "data/template/chat_template.h"

namespace tessera::testing {

std::tm oracle_time() {
  std::tm time = {};
  time.tm_year = 126;  // 2026-03-05 09:07:03, a Thursday
  time.tm_mon = 2;
  time.tm_mday = 5;
  time.tm_hour = 9;
  time.tm_min = 7;
  time.tm_sec = 3;
  time.tm_wday = 4;
  time.tm_yday = 63;
  return time;
}

bool have_jinja2() {
  static const bool have = std::system("python3 -c 'import jinja2' >/dev/null 2>&1") == 0;
  return have;
}

std::vector<TemplateAnswer> ask_jinja2(const std::string& source_dir,
                                       const std::vector<TemplateCase>& cases) {
  const TestFolder folder;
  nlohmann::ordered_json asked = nlohmann::ordered_json::array();
  for (const TemplateCase& one : cases) {
    asked.push_back({{"template", one.source}, {"context", one.context}});
  }
  folder.write("cases.json", asked.dump());
  const std::string command = "python3 '" + source_dir + "/tests/data/templates/oracle.py' '" +
                              folder.path("cases.json") + "' '" + folder.path("answers.json") + "'";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("the oracle failed: " + command);
  std::vector<TemplateAnswer> answers;
  for (const nlohmann::json& one : nlohmann::json::parse(read_file(folder.path("answers.json")))) {
    TemplateAnswer answer;
    if (one.contains("error")) {
      answer.error = one["error"].get<std::string>();
    } else {
      answer.text = one["text"].get<std::string>();
      answer.spans = one["spans"];
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

TemplateAnswer ask_tessera(const TemplateCase& one) {
  TemplateAnswer answer;
  try {
    const RenderedChat rendered =
        ChatTemplate::parse(one.source, "t.jinja").render(one.context, oracle_time());
    answer.text = rendered.text;
    for (const TextSpan& span : rendered.generated) answer.spans.push_back({span.begin, span.end});
  } catch (const ConfigError& error) {
    answer.error = error.what();
  }
  return answer;
}

}  // namespace tessera::testing
