#include "published/words.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/embedded.h"
#include "base/error.h"
#include "base/text/toml.h"

namespace tessera {
namespace {

struct Rule {
  std::string means;
  std::vector<std::string> starts, has, all;

  // Where the word is that makes the text mean this.
  [[nodiscard]] size_t find(std::string_view text) const {
    for (const std::string& word : starts) {
      if (text.starts_with(word)) return 0;
    }
    for (const std::string& word : has) {
      const size_t at = text.find(word);
      if (at != std::string_view::npos) return at;
    }
    const bool every = !all.empty() && std::all_of(all.begin(), all.end(), [&](const auto& word) {
      return text.find(word) != std::string_view::npos;
    });
    return every ? 0 : std::string_view::npos;
  }
};

using Rules = std::map<std::string, std::vector<Rule>, std::less<>>;

std::vector<std::string> words_of(const toml::table& rule, const char* key) {
  std::vector<std::string> words;
  const toml::array* list = rule[key].as_array();
  if (list == nullptr) return words;
  for (const toml::node& word : *list) words.push_back(word.value<std::string>().value());
  return words;
}

Rules read_rules() {
  Rules rules;
  const toml::table file = toml::parse(published_file("words"));
  for (const auto& [topic, node] : file) {
    for (const toml::node& entry : *node.as_array()) {
      const toml::table& rule = *entry.as_table();
      rules[std::string(topic.str())].push_back({rule["means"].value<std::string>().value(),
                                                 words_of(rule, "starts"), words_of(rule, "has"),
                                                 words_of(rule, "all")});
    }
  }
  return rules;
}

const std::vector<Rule>& rules_of(std::string_view topic) {
  static const Rules kRules = read_rules();
  const auto found = kRules.find(topic);
  TESSERA_CHECK(found != kRules.end(), "words.toml has no rules for {}", topic);
  return found->second;
}

}  // namespace

std::string_view published_file(std::string_view name) {
  for (const EmbeddedFile& file : embedded_published()) {
    if (file.name == name) return file.text;
  }
  TESSERA_CHECK(false, "catalogue/published has no {}.toml", name);
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string meaning(std::string_view topic, std::string_view text) {
  return find_word(topic, text).meaning;
}

bool means(std::string_view topic, std::string_view text, std::string_view wanted) {
  const std::vector<Rule>& rules = rules_of(topic);
  return std::any_of(rules.begin(), rules.end(), [&](const Rule& rule) {
    return rule.means == wanted && rule.find(text) != std::string_view::npos;
  });
}

FoundWord find_word(std::string_view topic, std::string_view text) {
  for (const Rule& rule : rules_of(topic)) {
    const size_t at = rule.find(text);
    if (at != std::string_view::npos) return {at, rule.means};
  }
  return {};
}

}  // namespace tessera
