// Random templates against Jinja2, and damaged ones against themselves: whatever a file holds, the
// answer is a text or a ConfigError.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/error.h"
#include "base/testing/share.h"
#include "base/testing/test_folder.h"
#include "data/template/chat_template.h"
#include "data/testing/template_oracle.h"

namespace tessera {
namespace {

using testing::TemplateAnswer;
using testing::TemplateCase;

nlohmann::ordered_json fuzz_context() {
  return nlohmann::ordered_json::parse(R"({
    "n": 7, "z": 0, "r": 2.5, "s": "a Bc-dé ", "t": "x,y,,z", "e": "", "yes": true, "no": null,
    "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "empty": [], "d": {"k": "v", "b": 2, "items": "q"},
    "m": [{"role": "user", "content": "hi", "n": 2}, {"role": "assistant", "content": "ho", "n": 1},
          {"role": "user", "content": null}]})");
}

// Writes templates by a small grammar; most of them have a meaning.
class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {}

  std::string block(int depth) {
    std::string text;
    for (size_t i = 0, count = 1 + pick(3); i < count; ++i) text += statement(depth);
    return text;
  }

 private:
  size_t pick(size_t count) { return random_() % count; }
  std::string one_of(const std::vector<std::string>& words) { return words[pick(words.size())]; }

  std::string name() {
    return one_of(
        {"n", "z", "r", "s", "t", "e", "yes", "no", "l", "w", "empty", "d", "m", "u", "x"});
  }
  std::string literal() {
    return one_of({"0", "1", "-3", "2.5", "1e3", "'a'", "\"it's\"", "''", "true", "none", "[]",
                   "[1, 'a']", "(1, 2)", "{'a': 1}", "'\\n'", "'é\\u00df'", "10 ** 2"});
  }
  std::string filter() {
    return one_of({"trim",
                   "upper",
                   "lower",
                   "title",
                   "capitalize",
                   "length",
                   "list",
                   "first",
                   "last",
                   "string",
                   "int",
                   "float",
                   "abs",
                   "sort",
                   "reverse",
                   "unique",
                   "join",
                   "join(', ')",
                   "default('d')",
                   "default('d', true)",
                   "tojson",
                   "tojson(indent=2)",
                   "items",
                   "sum",
                   "min",
                   "max",
                   "round(1)",
                   "replace('a', 'bb')",
                   "map('string')",
                   "map('upper')",
                   "map(attribute='role')",
                   "selectattr('role', 'equalto', 'user')",
                   "rejectattr('n')",
                   "select('string')",
                   "reject('none')",
                   "indent(2)",
                   "dictsort",
                   "selectattr('n', 'defined')",
                   "batch(2)",
                   "count",
                   "trim('a ')",
                   "sort(reverse=true)",
                   "map(attribute='n', default=0)"});
  }
  std::string method() {
    return one_of({"strip()",         "split(',')",     "split()",          "upper()",
                   "startswith('a')", "endswith(' ')",  "replace('a', '')", "title()",
                   "items()",         "keys()",         "get('k')",         "get('q', 1)",
                   "rsplit(',', 1)",  "lstrip('a')",    "join(w)",          "count('a')",
                   "values()",        "find('B')",      "splitlines()",     "index(1)",
                   "capitalize()",    "partition('-')", "isdigit()"});
  }
  std::string test() {
    return one_of({"defined",  "undefined", "none",    "string",         "mapping",    "iterable",
                   "sequence", "number",    "integer", "float",          "boolean",    "true",
                   "false",    "odd",       "even",    "divisibleby(2)", "equalto(1)", "in l",
                   "in 'abc'", "eq n",      "lower",   "upper",          "callable",   "gt 1"});
  }
  std::string access() {
    return one_of({"[0]", "[-1]", "['k']", ".k", ".role", "[1:]", "[:-1]", "[::-1]", "[::2]", "[5]",
                   "[-2:]", ".items", "['items']", "[2:0:-1]", "[n]", ".0", "[:99]"});
  }
  std::string binary() {
    return one_of({"+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "in", "not in", "and",
                   "or", "~", "==", "and"});
  }

  std::string expression(int depth) {
    if (depth <= 0) return pick(3) == 0 ? literal() : name();
    switch (pick(9)) {
      case 0:
        return expression(depth - 1) + " | " + filter();
      case 1:
        return "(" + expression(depth - 1) + " | " + filter() + " | " + filter() + ")";
      case 2:
        return "(" + expression(depth - 1) + " " + binary() + " " + expression(depth - 1) + ")";
      case 3:
        return name() + access();
      case 4:
        return name() + access() + "." + method();
      case 5:
        return "(" + expression(depth - 1) + " is " + (pick(3) == 0 ? "not " : "") + test() + ")";
      case 6:
        return "(" + expression(depth - 1) + " if " + expression(depth - 1) +
               (pick(2) == 0 ? " else " + expression(depth - 1) : "") + ")";
      case 7:
        return name() + "." + method();
      default:
        return "(not " + expression(depth - 1) + ")";
    }
  }

  std::string open() { return one_of({"{% ", "{%- ", "{%+ ", "  {% ", "\n {%- "}); }
  std::string close() { return one_of({" %}", " -%}", " %}\n", " +%}\n", " -%}\n  "}); }
  std::string tag(const std::string& text) { return open() + text + close(); }

  std::string statement(int depth) {
    switch (depth <= 0 ? pick(3) : pick(10)) {
      case 0:
        return one_of({"text", " ", "\n", "a\n\n b", "{", "}", "é", "\t\n"});
      case 1:
      case 2:
        return one_of({"{{ ", "{{- "}) + expression(2) + one_of({" }}", " -}}", "}}\n"});
      case 3:
        return tag("if " + expression(1)) + block(depth - 1) +
               (pick(2) == 0 ? tag("else") + block(depth - 1) : "") + tag("endif");
      case 4:
        return tag("for i in " + expression(1) + (pick(3) == 0 ? " if i" : "")) + "{{ i }}" +
               one_of({"{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}",
                       "{{ loop.revindex0 }}", "{{ loop.nextitem }}", "{{ loop.cycle('p', 'q') }}",
                       "{% break %}", "{% continue %}"}) +
               block(depth - 1) + (pick(3) == 0 ? tag("else") + block(0) : "") + tag("endfor");
      case 5:
        return tag("set " + one_of({"x", "u"}) + " = " + expression(2)) + "{{ x }}";
      case 6:
        return tag("set x") + block(depth - 1) + tag("endset") + "{{ x | length }}";
      case 7:
        return tag("set ns = namespace(a=" + expression(1) + ")") + tag("for i in l") +
               tag("set ns.a = ns.a ~ i") + tag("endfor") + "{{ ns.a }}";
      case 8:
        return tag("macro f(p, q=" + literal() + ")") + "<{{ p }}{{ q }}>" + tag("endmacro") +
               "{{ f(" + expression(1) + ") }}";
      default:
        return one_of({"{# c #}", "{#- c -#}", "{% raw %} {{ x }} {% endraw %}", "{# c #}\n"});
    }
  }

  std::mt19937_64 random_;
};

// What Jinja does and this refuses, by name.
bool is_refusal(const std::string& error) {
  for (const char* words : {"not supported", "has no text", "above 64 bits", "ASCII alone"}) {
    if (error.find(words) != std::string::npos) return true;
  }
  return false;
}

TEST(TemplateFuzzTest, RandomTemplatesRenderAsJinjaRendersThem) {
  if (!testing::have_jinja2()) GTEST_SKIP() << "python3 has no jinja2 (Debian: python3-jinja2)";
  std::vector<TemplateCase> cases;
  const char* seed = std::getenv("TESSERA_FUZZ_SEED");
  const char* count = std::getenv("TESSERA_FUZZ_CASES");
  Writer writer(seed == nullptr ? 18 : std::strtoull(seed, nullptr, 10));
  const testing::Share share =
      count == nullptr ? testing::share_of(10'000, 25) : testing::Share{0, std::atoll(count)};
  for (int64_t i = 0; i < share.end; ++i) {
    const std::string block = writer.block(2);
    if (i >= share.begin) cases.push_back({block, fuzz_context()});
  }
  const std::vector<TemplateAnswer> answers = testing::ask_jinja2(TESSERA_SOURCE_DIR, cases);
  size_t texts = 0, refusals = 0, wrong = 0;
  for (size_t i = 0; i < cases.size() && wrong < 20; ++i) {
    const TemplateAnswer mine = testing::ask_tessera(cases[i]);
    if (mine.error && !answers[i].error && is_refusal(*mine.error)) {
      ++refusals;
      continue;
    }
    const bool same = mine.error.has_value() == answers[i].error.has_value() &&
                      mine.text == answers[i].text && mine.spans == answers[i].spans;
    EXPECT_TRUE(same) << "template: " << cases[i].source
                      << "\n  Jinja: " << answers[i].error.value_or("'" + answers[i].text + "'")
                      << "\n  here:  " << mine.error.value_or("'" + mine.text + "'");
    wrong += same ? 0 : 1;
    texts += mine.error ? 0 : 1;
  }
  EXPECT_GT(texts, cases.size() / 5);
  EXPECT_LT(refusals, cases.size() / 10);
}

TEST(TemplateFuzzTest, DamagedTemplatesEndInAMessage) {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/tests/data/templates";
  std::vector<std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".jinja") sources.push_back(testing::read_file(entry.path()));
  }
  std::sort(sources.begin(), sources.end());
  const auto conversations =
      nlohmann::ordered_json::parse(testing::read_file(folder + "/conversations.json"));
  const TemplateLimits small = {.steps = 20'000, .made_bytes = 1 << 20, .output_bytes = 1 << 16};
  const char* count = std::getenv("TESSERA_FUZZ_DAMAGED");
  const size_t most = testing::tries_all() ? 60'000 : 3'000;
  std::mt19937_64 random(7);
  size_t refused = 0, rendered = 0;
  for (size_t i = 0, num = count == nullptr ? most : std::strtoull(count, nullptr, 10); i < num;
       ++i) {
    std::string source = sources[random() % sources.size()];
    for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
      const std::string& other = sources[random() % sources.size()];
      const size_t at = random() % source.size(), from = random() % other.size();
      const size_t size = 1 + random() % 24;
      if (random() % 3 == 0) {
        source.erase(at, size);
      } else if (random() % 2 == 0) {
        source.insert(at, other.substr(from, size));
      } else {
        source[at] = static_cast<char>(random() % 256);
      }
      if (source.empty()) source = "{";
    }
    try {
      const ChatTemplate damaged = ChatTemplate::parse(source, "damaged", small);
      const auto& conversation = conversations[random() % conversations.size()];
      static_cast<void>(damaged.render(conversation["context"], testing::oracle_time()));
      ++rendered;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("damaged:")) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(rendered, 50U);
  EXPECT_GT(refused, 50U);
}

}  // namespace
}  // namespace tessera
