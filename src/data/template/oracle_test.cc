// Thirty templates in the shapes that public models use, with a dozen conversations each, against
// Jinja2: its live answers where python3 has it, else those that were recorded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/testing/test_folder.h"
#include "data/testing/template_oracle.h"

namespace tessera {
namespace {

using testing::TemplateAnswer;
using testing::TemplateCase;

const std::string kFolder = std::string(TESSERA_SOURCE_DIR) + "/tests/data/templates";

struct NamedCase {
  std::string name;
  TemplateCase one;
};

std::vector<NamedCase> all_cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  const auto conversations =
      nlohmann::ordered_json::parse(testing::read_file(kFolder + "/conversations.json"));
  std::vector<NamedCase> cases;
  for (const auto& file : files) {
    for (const auto& conversation : conversations) {
      cases.push_back({file.stem().string() + "/" + conversation["name"].get<std::string>(),
                       {testing::read_file(file.string()), conversation["context"]}});
    }
  }
  return cases;
}

nlohmann::ordered_json as_record(const TemplateAnswer& answer) {
  if (answer.error) return nlohmann::ordered_json{{"error", true}};
  nlohmann::ordered_json record = {{"text", answer.text}};
  if (!answer.spans.empty()) record["spans"] = answer.spans;
  return record;
}

TEST(TemplateOracleTest, ThirtyTemplatesRenderAsJinjaRendersThem) {
  const std::vector<NamedCase> cases = all_cases();
  ASSERT_EQ(cases.size(), 30U * 12U);
  const std::string path = kFolder + "/recorded.json";
  auto recorded = nlohmann::ordered_json::parse(testing::read_file(path), nullptr, false);
  if (testing::have_jinja2()) {
    std::vector<TemplateCase> asked;
    for (const NamedCase& one : cases) asked.push_back(one.one);
    const std::vector<TemplateAnswer> answers = testing::ask_jinja2(TESSERA_SOURCE_DIR, asked);
    auto live = nlohmann::ordered_json::object();
    for (size_t i = 0; i < cases.size(); ++i) live[cases[i].name] = as_record(answers[i]);
    if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path) << live.dump(0) << '\n';
      recorded = live;
    }
    EXPECT_EQ(live, recorded) << "recorded.json is old: run with TESSERA_UPDATE_GOLDEN=1";
    recorded = live;
  }
  size_t num_texts = 0;
  for (const NamedCase& one : cases) {
    const TemplateAnswer mine = testing::ask_tessera(one.one);
    EXPECT_EQ(as_record(mine), recorded.value(one.name, nlohmann::ordered_json()))
        << one.name << ": " << mine.error.value_or("no error");
    num_texts += mine.error ? 0 : 1;
  }
  EXPECT_GT(num_texts, 200U);
}

}  // namespace
}  // namespace tessera
