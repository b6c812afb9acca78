#include <algorithm>

#include "base/text/text.h"
#include "data/template/functions/filters.h"
#include "data/template/syntax/parser.h"

namespace tessera::jinja {
namespace {

constexpr std::string_view kTags[] = {"break", "call",  "continue", "filter", "for", "generation",
                                      "if",    "macro", "raw",      "set",    "with"};
// Jinja's, or of its extensions: refused by name.
constexpr std::string_view kOtherFiles[] = {"include", "import", "from", "extends", "block"};
constexpr std::string_view kNotHere[] = {"autoescape", "do", "debug", "trans", "print"};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void Parser::fail_tag(const Token& tag) const {
  if (is_one_of(tag.text, kOtherFiles)) {
    place_.fail(tag.line,
                fmt::format("{{% {} %}} needs other files, which a chat template has not: "
                            "put their text here",
                            tag.text));
  }
  if (is_one_of(tag.text, kNotHere)) {
    place_.fail(tag.line, fmt::format("{{% {} %}} is not supported", tag.text));
  }
  if (tag.text.starts_with("end") || tag.text == "else" || tag.text == "elif") {
    place_.fail(tag.line, fmt::format("{{% {} %}} closes no block that is open here", tag.text));
  }
  place_.fail(tag.line,
              fmt::format("unknown tag '{}'; {}", tag.text, suggestion(tag.text, kTags, "tags")));
}

Block Parser::parse_until(const std::vector<std::string_view>& ends, std::string* found) {
  const Nested nested(*this);
  Block body;
  const int start = current().line;
  while (true) {
    const Token token = next();
    if (token.kind == TokenKind::kEnd) break;
    if (token.kind == TokenKind::kData) {
      body.push_back({.line = token.line, .node = TextNode{token.text}});
    } else if (token.kind == TokenKind::kVariableBegin) {
      body.push_back({.line = token.line, .node = PrintNode{parse_tuple()}});
      expect(TokenKind::kVariableEnd);
    } else {
      const bool ended = current().kind == TokenKind::kName && is_one_of(current().text, ends);
      if (ended) {
        const std::string name = next().text;
        if (found != nullptr) *found = name;
        return body;
      }
      body.push_back(parse_statement());
      expect(TokenKind::kBlockEnd);
    }
  }
  if (!ends.empty()) {
    place_.fail(start, fmt::format("the block that begins here has no {{% {} %}}", ends.back()));
  }
  return body;
}

Block Parser::parse_body(const std::vector<std::string_view>& ends, std::string* found) {
  take_operator(":");
  expect(TokenKind::kBlockEnd);
  return parse_until(ends, found);
}

Statement Parser::parse_statement() {
  if (current().kind != TokenKind::kName) fail_unexpected("the name of a tag");
  const Token tag = next();
  const std::string& name = tag.text;
  if (name == "for") return parse_for(tag.line);
  if (name == "if") return parse_if(tag.line);
  if (name == "set") return parse_set(tag.line);
  if (name == "macro") return parse_macro(tag.line);
  if (name == "call") return parse_call_block(tag.line);
  if (name == "filter") return parse_filter_block(tag.line);
  if (name == "with") return parse_with(tag.line);
  if (name == "generation") return parse_generation(tag.line);
  if (name == "break" || name == "continue") {
    if (loops_ == 0) place_.fail(tag.line, fmt::format("{{% {} %}} outside of a loop", name));
    if (name == "break") return {.line = tag.line, .node = BreakNode{}};
    return {.line = tag.line, .node = ContinueNode{}};
  }
  fail_tag(tag);
}

Statement Parser::parse_for(int line) {
  ForNode node;
  node.target = parse_target(false);
  if (!take_name("in")) fail_unexpected("'in'");
  node.values = parse_tuple(false);
  if (take_name("if")) node.condition = parse_expression();
  if (sees_name("recursive")) {
    place_.fail(line, "recursive loops are not supported: use a macro that calls itself");
  }
  std::string end;
  ++loops_;
  node.body = parse_body({"else", "endfor"}, &end);
  --loops_;
  if (end == "else") node.otherwise = parse_body({"endfor"});
  return {.line = line, .node = std::move(node)};
}

Statement Parser::parse_if(int line) {
  IfNode node;
  std::string end;
  const size_t known_wrong = unknown_.size();
  do {
    ExprPtr condition = parse_tuple(false);
    Block body = parse_body({"elif", "else", "endif"}, &end);
    node.branches.emplace_back(std::move(condition), std::move(body));
  } while (end == "elif");
  if (end == "else") node.otherwise = parse_body({"endif"});
  unknown_.resize(known_wrong);
  return {.line = line, .node = std::move(node)};
}

Statement Parser::parse_set(int line) {
  Target target = parse_target(true);
  if (take_operator("=")) {
    return {.line = line, .node = SetNode{std::move(target), parse_tuple()}};
  }
  SetBlockNode node{.target = std::move(target), .filter = nullptr, .body = {}};
  while (take_operator("|")) node.filter = parse_filter(std::move(node.filter));
  node.body = parse_captured_body("endset");
  return {.line = line, .node = std::move(node)};
}

// A body whose text goes elsewhere: break and continue cannot leave it.
Block Parser::parse_captured_body(std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  const bool captured = std::exchange(captured_, true);
  Block body = parse_body({end});
  loops_ = loops;
  captured_ = captured;
  return body;
}

void Parser::parse_signature(MacroNode& macro) {
  expect_operator("(");
  bool optional = false;
  while (!sees_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    Parameter parameter;
    parameter.name = expect_name();
    parameter.symbol = symbol_of(parameter.name);
    if (take_operator("=")) {
      parameter.otherwise = parse_expression();
      optional = true;
    } else if (optional) {
      place_.fail(current().line,
                  fmt::format("parameter '{}' needs a default, as the one before it "
                              "has one",
                              parameter.name));
    }
    macro.parameters.push_back(std::move(parameter));
  }
  expect_operator(")");
}

Block Parser::parse_macro_body(MacroNode& macro, std::string_view end) {
  MacroNode* outer = std::exchange(macro_, &macro);
  Block body = parse_captured_body(end);
  macro_ = outer;
  return body;
}

Statement Parser::parse_macro(int line) {
  auto macro = std::make_unique<MacroNode>();
  macro->name = expect_name();
  macro->symbol = symbol_of(macro->name);
  parse_signature(*macro);
  macro->body = parse_macro_body(*macro, "endmacro");
  return {.line = line, .node = std::move(macro)};
}

Statement Parser::parse_call_block(int line) {
  CallBlockNode node{.caller = std::make_unique<MacroNode>()};
  node.caller->name = "caller";
  node.caller->symbol = symbol_of("caller");
  if (sees_operator("(")) parse_signature(*node.caller);
  node.call = parse_expression();
  if (node.call->kind != ExprKind::kCall)
    place_.fail(line, "{% call %} wants a call: {% call f() %}");
  node.caller->body = parse_macro_body(*node.caller, "endcall");
  return {.line = line, .node = std::move(node)};
}

Statement Parser::parse_filter_block(int line) {
  FilterBlockNode node;
  node.filter = parse_filter(nullptr);
  while (take_operator("|")) node.filter = parse_filter(std::move(node.filter));
  node.body = parse_captured_body("endfilter");
  return {.line = line, .node = std::move(node)};
}

Statement Parser::parse_with(int line) {
  WithNode node;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node.values.empty()) expect_operator(",");
    Target target = parse_one_target(false);
    expect_operator("=");
    node.values.emplace_back(std::move(target), parse_expression());
  }
  node.body = parse_body({"endwith"});
  return {.line = line, .node = std::move(node)};
}

Statement Parser::parse_generation(int line) {
  if (captured_ || in_generation_) {
    place_.fail(line,
                "{% generation %} inside a macro, a block that is stored, or another one: "
                "where its text ends up is not known; move it out");
  }
  tree_.has_generation = true;
  in_generation_ = true;
  const int loops = std::exchange(loops_, 0);
  GenerationNode node{.body = parse_body({"endgeneration"})};
  loops_ = loops;
  in_generation_ = false;
  return {.line = line, .node = std::move(node)};
}

Target Parser::parse_target(bool with_attributes) {
  Target first = parse_one_target(with_attributes);
  if (!sees_operator(",")) return first;
  Target tuple;
  tuple.elements.push_back(std::move(first));
  while (take_operator(",")) {
    if (sees_name("in") || sees_operator("=")) break;
    tuple.elements.push_back(parse_one_target(with_attributes));
  }
  return tuple;
}

Target Parser::parse_one_target(bool with_attributes) {
  const Nested nested(*this);
  if (take_operator("(")) {
    Target target = parse_target(with_attributes);
    expect_operator(")");
    return target;
  }
  Target target;
  target.name = expect_name();
  constexpr std::string_view kFixed[] = {"true", "false", "none", "True", "False", "None"};
  if (is_one_of(target.name, kFixed)) {
    place_.fail(current().line, fmt::format("'{}' cannot be assigned to", target.name));
  }
  target.symbol = symbol_of(target.name);
  if (with_attributes && take_operator(".")) target.attribute = expect_name();
  return target;
}

}  // namespace tessera::jinja
