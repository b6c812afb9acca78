#include "data/template/chat_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/message_of.h"
#include "data/testing/template_oracle.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

std::string render(const std::string& source, const ordered_json& context = ordered_json::object(),
                   const TemplateLimits& limits = {}) {
  return ChatTemplate::parse(source, "t.jinja", limits).render(context, std::nullopt).text;
}

std::string refusal(const std::string& source, const ordered_json& context = ordered_json::object(),
                    const TemplateLimits& limits = {}) {
  return testing::message_of([&] { render(source, context, limits); });
}

void expect_refusal(const std::string& source, const std::string& words) {
  const std::string message = refusal(source, {{"s", "text"}, {"l", {1, 2}}, {"d", {{"k", 1}}}});
  EXPECT_NE(message.find(words), std::string::npos) << source << "\n  " << message;
}

TEST(ChatTemplateTest, KeysKeepTheirOrder) {
  EXPECT_EQ(
      render("{{ d | tojson }}{{ d }}", ordered_json::parse(R"({"d": {"z": 1, "a": [true]}})")),
      R"({"z": 1, "a": [true]}{'z': 1, 'a': [True]})");
}

TEST(ChatTemplateTest, WhiteSpaceGoesAsTransformersHasIt) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(render("a\n  {%+ if true %}\n  b{% endif +%}\nc\n\n"), "a\n    b\nc\n");
  EXPECT_EQ(render("a  {{- 'b' -}}\n  c {#- x -#} d"), "abcd");
}

TEST(ChatTemplateTest, GenerationBlocksGiveBytes) {
  const auto chat = ChatTemplate::parse(
      "é{% for m in ms %}[{% generation %}{{ m }}{% endgeneration %}]{% endfor %}", "t.jinja");
  EXPECT_TRUE(chat.marks_generation());
  const RenderedChat rendered = chat.render({{"ms", {"ü", "", "ab"}}}, std::nullopt);
  EXPECT_EQ(rendered.text, "é[ü][][ab]");
  const std::vector<TextSpan> expected = {{3, 5}, {9, 11}};
  EXPECT_EQ(rendered.generated, expected);
}

TEST(ChatTemplateTest, WhatIsNotInTheSubsetIsRefusedByName) {
  expect_refusal("\n{% include 'x' %}", "t.jinja:2: {% include %} needs other files");
  expect_refusal("{% import 'x' as y %}", "{% import %} needs other files");
  expect_refusal("{% extends 'x' %}", "{% extends %}");
  expect_refusal("{% do x %}", "t.jinja:1: {% do %} is not supported");
  expect_refusal("{% forr x in y %}", "unknown tag 'forr'; did you mean 'for'?");
  expect_refusal("{% for x in l recursive %}{% endfor %}", "recursive loops are not supported");
  expect_refusal("a\nb\n{{ s | urlize }}", "t.jinja:3: there is no filter 'urlize'");
  expect_refusal("{{ s | uper }}", "did you mean 'upper'?");
  expect_refusal("{{ s is strin }}", "there is no test 'strin'; did you mean 'string'?");
  expect_refusal("{{ s.casefold() }}", "'casefold' of a string is not supported");
  expect_refusal("{{ f(*l) }}", "* and ** in a call are not supported");
  expect_refusal("{% set j = joiner() %}", "'joiner' is not supported");
}

TEST(ChatTemplateTest, UnknownFiltersMayStandWhereTheyAreNotUsed) {
  EXPECT_EQ(render("{% if 'from_json' is filter %}{{ s | from_json }}{% else %}no{% endif %}"),
            "no");
  EXPECT_EQ(render("{{ (s | from_json) if false else 'no' }}"), "no");
  expect_refusal("\n{% if true %}{{ s | from_json }}{% endif %}",
                 "t.jinja:2: there is no filter 'from_json'");
}

// d.items is the method, whatever keys d has; a method has no attributes.
TEST(ChatTemplateTest, MethodsComeBeforeKeys) {
  const auto context = ordered_json::parse(R"({"d": {"items": {"type": "x"}}})");
  EXPECT_EQ(render("{{ d['items'].type }}{{ d.items.type is defined }}", context), "xFalse");
}

TEST(ChatTemplateTest, SafeTextEscapesWhatItIsJoinedWith) {
  EXPECT_EQ(render("{{ '<a>' | safe + \"<'>\" }} {{ '&' + 'b' | safe }} {{ '<' | safe ~ '<' }}"),
            "<a>&lt;&#39;&gt; &amp;b <<");
}

TEST(ChatTemplateTest, MistakesHaveTheirLineAndWhatToDo) {
  expect_refusal("{{ 'a", "t.jinja:1: a string begins with ' and does not end");
  expect_refusal("\n\n{% if s %}", "t.jinja:3: the block that begins here has no {% endif %}");
  expect_refusal("{% endif %}", "{% endif %} closes no block that is open here");
  expect_refusal("{{ (s] }}", "']' where ')' is expected");
  expect_refusal("{# x", "a comment begins with {# and has no #}");
  expect_refusal("{{ s", "{{ has no }}");
  expect_refusal("{% break %}", "{% break %} outside of a loop");
  expect_refusal("{{ nothing.at.all }}", "'nothing' is undefined");
  expect_refusal("{{ d.x.y }}", "a mapping has no 'x'");
  expect_refusal("\n{{ s + 1 }}", "t.jinja:2: '+' does not work between a string and an integer");
  expect_refusal("{{ l.append(3) }}", "'append' would change a list");
  expect_refusal("{% set d.k = 1 %}", "'d' is no namespace");
  expect_refusal("{{ raise_exception('no\x1b[1m') }}", "refuses this conversation: no\\u001b[1m");
  expect_refusal("{{ l | map('trim') | length }}", "write '| list | length'");
  expect_refusal("{{ 9223372036854775807 + 1 }}", "above 64 bits");
  expect_refusal("{{ 1 // 0 }}", "'//' by zero");
  expect_refusal("\xff", "the template is not UTF-8");
  expect_refusal("{{ strftime_now('%Y') }}", "strftime_now() wants the date");
  expect_refusal("{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}",
                 "{% generation %} inside a macro");
  expect_refusal(
      "{% set n = namespace() %}{% for i in l %}{% macro m() %}{% endmacro %}"
      "{% set n.m = m %}{% endfor %}{{ n.m() }}",
      "called outside of the block that defines it");
}

// Templates come from strangers: each of these would take hours, or all memory.
TEST(ChatTemplateTest, LoopsAndGrowthEnd) {
  // Reached sooner than what holds unless it is said (DataChatTest.TemplatesThatLoopOrGrow...).
  const TemplateLimits few = {.steps = 1'000'000, .made_bytes = int64_t{8} << 20};
  const auto ends = [&](const std::string& source) { return refusal(source, {}, few); };
  std::string long_body = "{% for a in range(99999) %}{{ 0";
  for (int i = 0; i < 100; ++i) long_body += "*1";
  EXPECT_NE(ends(long_body + " }}{% endfor %}").find("more than 1000000 steps"), std::string::npos);
  const std::string loops =
      "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
  EXPECT_NE(ends(loops).find("bytes of text and lists were made"), std::string::npos);
  const std::string grows =
      "{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}";
  EXPECT_NE(ends(grows).find("bytes of text and lists were made"), std::string::npos);
  EXPECT_NE(refusal("{{ 'abc' * 100000000000 }}").find("would make more than"), std::string::npos);
  EXPECT_NE(refusal("{{ ('x' * 100000).replace('', 'y' * 100000) }}").find("would make more than"),
            std::string::npos);
  const std::string calls = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
  EXPECT_NE(ends(calls).find("a macro that calls itself without end"), std::string::npos);
  const std::string nests =
      "{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = [n.l, n.l] %}{% endfor "
      "%}";
  EXPECT_NE(ends(nests).find("nested deeper than 100"), std::string::npos);
  // 2^60 leaves in 60 lists.
  const std::string wide =
      "{% set n = namespace(l=[]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}";
  EXPECT_NE(ends(wide + "{{ n.l }}").find("more than"), std::string::npos);
  EXPECT_NE(ends(wide + "{{ n.l | tojson }}").find("more than"), std::string::npos);
  const std::string other =
      "{% set k = namespace(l=[]) %}{% for i in range(60) %}{% set k.l = [k.l, k.l] %}{% endfor %}";
  EXPECT_NE(ends(wide + other + "{{ n.l == k.l }}").find("steps"), std::string::npos);
  EXPECT_NE(refusal("{{ range(1000000) | list }}").find("more than 100000 numbers"),
            std::string::npos);
  EXPECT_NE(refusal("{{ " + std::string(5000, '(') + std::string(5000, ')') + " }}")
                .find("inside each other"),
            std::string::npos);
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += "+1";
  EXPECT_NE(refusal(sum + " }}").find("inside each other"), std::string::npos);
  EXPECT_NE(refusal(std::string(2 << 20, 'x')).find("the limit is 1048576"), std::string::npos);
  EXPECT_NE(refusal("{% for i in range(99) %}0123456789{% endfor %}", {}, {.output_bytes = 500})
                .find("longer than 500 bytes"),
            std::string::npos);
}

// Cycles through namespaces and loops would leak or overflow the stack at the end.
TEST(ChatTemplateTest, RingsOfValuesEnd) {
  EXPECT_EQ(
      render("{% set n = namespace() %}{% set n.n = n %}{% set n.l = [n] %}{{ n.n.l | length }}"),
      "1");
  EXPECT_NE(refusal("{% set n = namespace(x=1) %}{% for i in range(99999) %}{% for a in [n.x] %}"
                    "{% set n.x = loop %}{% endfor %}{% endfor %}")
                .find("nested deeper"),
            std::string::npos);
  EXPECT_NE(refusal("{% set n = namespace(x=1) %}{% for i in range(99999) %}{% for a in [n.x] %}"
                    "{% set n.x = loop.cycle %}{% endfor %}{% endfor %}")
                .find("nested deeper"),
            std::string::npos);
}

TEST(ChatTemplateTest, TheDateIsGiven) {
  const auto chat = ChatTemplate::parse(
      "{{ strftime_now('%d %b %Y, %A %B %-d, %H:%M:%S %I%p %j %y %%') }}", "t.jinja");
  EXPECT_EQ(chat.render(ordered_json::object(), testing::oracle_time()).text,
            "05 Mar 2026, Thursday March 5, 09:07:03 09AM 064 26 %");
  EXPECT_NE(testing::message_of([&] {
              static_cast<void>(ChatTemplate::parse("{{ strftime_now('%Q') }}", "t.jinja")
                                    .render(ordered_json::object(), testing::oracle_time()));
            }).find("strftime_now does not know %Q"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
