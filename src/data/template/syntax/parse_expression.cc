#include <array>
#include <optional>

#include "base/text/text.h"
#include "data/template/functions/checks.h"
#include "data/template/functions/filters.h"
#include "data/template/syntax/parser.h"

namespace tessera::jinja {
namespace {

template <typename... Parts>
std::vector<ExprPtr> list_of(Parts... parts) {
  std::vector<ExprPtr> list;
  (list.push_back(std::move(parts)), ...);
  return list;
}

std::optional<CompareOp> compare_op(const Token& token) {
  constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<", "<=", ">", ">="};
  for (size_t i = 0; i < kSigns.size(); ++i) {
    if (token.kind == TokenKind::kOperator && token.text == kSigns.at(i)) {
      return static_cast<CompareOp>(i);
    }
  }
  return std::nullopt;
}

}  // namespace

ExprPtr Parser::parse_tuple(bool with_condition, bool in_parentheses) {
  const int line = current().line;
  const auto ended = [&] {
    return current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
           sees_operator(")") || (!with_condition && sees_name("recursive"));
  };
  std::vector<ExprPtr> parts;
  bool is_tuple = false;
  while (!ended()) {
    parts.push_back(with_condition ? parse_expression() : parse_or());
    if (!take_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !parts.empty()) return std::move(parts.front());
  if (!is_tuple && !in_parentheses) fail_unexpected("an expression");
  return make(ExprKind::kTuple, line, std::move(parts));
}

ExprPtr Parser::parse_expression() {
  const Nested nested(*this);
  const size_t known_wrong = unknown_.size();
  ExprPtr value = parse_or();
  while (sees_name("if")) {
    const int line = next().line;
    ExprPtr condition = parse_or();
    std::vector<ExprPtr> parts = list_of(std::move(condition), std::move(value));
    if (take_name("else")) parts.push_back(parse_expression());
    value = make(ExprKind::kConditional, line, std::move(parts));
    unknown_.resize(known_wrong);
  }
  return value;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (sees_name("or")) {
    const int line = next().line;
    left = make(ExprKind::kOr, line, list_of(std::move(left), parse_and()));
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (sees_name("and")) {
    const int line = next().line;
    left = make(ExprKind::kAnd, line, list_of(std::move(left), parse_not()));
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!sees_name("not")) return parse_compare();
  const Nested nested(*this);
  const int line = next().line;
  return make(ExprKind::kNot, line, list_of(parse_not()));
}

ExprPtr Parser::parse_compare() {
  const int line = current().line;
  std::vector<ExprPtr> parts = list_of(parse_sum());
  std::vector<CompareOp> comparisons;
  while (true) {
    if (const auto op = compare_op(current())) {
      comparisons.push_back(*op);
      next();
    } else if (take_name("in")) {
      comparisons.push_back(CompareOp::kIn);
    } else if (sees_name("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
      comparisons.push_back(CompareOp::kNotIn);
      next();
      next();
    } else {
      break;
    }
    parts.push_back(parse_sum());
  }
  if (comparisons.empty()) return std::move(parts.front());
  ExprPtr expr = make(ExprKind::kCompare, line, std::move(parts));
  expr->comparisons = std::move(comparisons);
  return expr;
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (sees_operator("+") || sees_operator("-")) {
    const Token sign = next();
    left = make(ExprKind::kArithmetic, sign.line, list_of(std::move(left), parse_concat()));
    left->op = sign.text == "+" ? Arithmetic::kAdd : Arithmetic::kSubtract;
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  const int line = current().line;
  std::vector<ExprPtr> parts = list_of(parse_product());
  while (take_operator("~")) parts.push_back(parse_product());
  if (parts.size() == 1) return std::move(parts.front());
  return make(ExprKind::kConcat, line, std::move(parts));
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (sees_operator("*") || sees_operator("/") || sees_operator("//") || sees_operator("%")) {
    const Token sign = next();
    left = make(ExprKind::kArithmetic, sign.line, list_of(std::move(left), parse_power()));
    left->op = sign.text == "*"    ? Arithmetic::kMultiply
               : sign.text == "/"  ? Arithmetic::kDivide
               : sign.text == "//" ? Arithmetic::kFloorDivide
                                   : Arithmetic::kModulo;
  }
  return left;
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary();
  while (sees_operator("**")) {
    const int line = next().line;
    left = make(ExprKind::kArithmetic, line, list_of(std::move(left), parse_unary()));
    left->op = Arithmetic::kPower;
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const int line = current().line;
  ExprPtr value;
  if (sees_operator("-") || sees_operator("+")) {
    const Nested nested(*this);
    const ExprKind kind = next().text == "-" ? ExprKind::kNegate : ExprKind::kPlus;
    value = make(kind, line, list_of(parse_unary(false)));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filter ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

ExprPtr Parser::parse_primary() {
  const Token& token = current();
  if (token.kind == TokenKind::kName) return parse_name();
  if (sees_operator("[")) return parse_list();
  if (sees_operator("{")) return parse_dict();
  if (sees_operator("(")) {
    next();
    const Nested nested(*this);
    ExprPtr value = parse_tuple(true, true);
    expect_operator(")");
    return value;
  }
  ExprPtr constant = make(ExprKind::kConstant, token.line);
  if (token.kind == TokenKind::kInteger) {
    constant->constant = Value::integer(token.integer);
  } else if (token.kind == TokenKind::kReal) {
    constant->constant = Value::real(token.real);
  } else if (token.kind == TokenKind::kString) {
    std::string text;
    while (ahead().kind == TokenKind::kString) text += next().text;  // 'a' 'b' is one string
    text += current().text;
    constant->constant = Value(std::make_shared<const std::string>(std::move(text)));
  } else {
    fail_unexpected("a value");
  }
  next();
  return constant;
}

ExprPtr Parser::parse_name() {
  const Token token = next();
  const std::string& name = token.text;
  ExprPtr expr = make(ExprKind::kConstant, token.line);
  if (name == "true" || name == "True") {
    expr->constant = Value::boolean(true);
  } else if (name == "false" || name == "False") {
    expr->constant = Value::boolean(false);
  } else if (name == "none" || name == "None") {
    expr->constant = Value::none();
  } else {
    expr->kind = ExprKind::kName;
    expr->name = name;
    expr->symbol = symbol_of(name);
    if (macro_ != nullptr) {
      macro_->takes_more_values |= name == "varargs";
      macro_->takes_more_names |= name == "kwargs";
      macro_->takes_caller |= name == "caller";
    }
  }
  return expr;
}

ExprPtr Parser::parse_list() {
  const Nested nested(*this);
  const int line = next().line;
  std::vector<ExprPtr> parts;
  while (!sees_operator("]")) {
    if (!parts.empty()) expect_operator(",");
    if (sees_operator("]")) break;
    parts.push_back(parse_expression());
  }
  expect_operator("]");
  return make(ExprKind::kList, line, std::move(parts));
}

ExprPtr Parser::parse_dict() {
  const Nested nested(*this);
  const int line = next().line;
  std::vector<ExprPtr> parts;
  while (!sees_operator("}")) {
    if (!parts.empty()) expect_operator(",");
    if (sees_operator("}")) break;
    parts.push_back(parse_expression());
    expect_operator(":");
    parts.push_back(parse_expression());
  }
  expect_operator("}");
  return make(ExprKind::kDict, line, std::move(parts));
}

ExprPtr Parser::parse_postfix(ExprPtr value) {
  while (true) {
    if (sees_operator(".")) {
      value = parse_attribute(std::move(value));
    } else if (sees_operator("[")) {
      value = parse_subscript(std::move(value));
    } else if (sees_operator("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr Parser::parse_attribute(ExprPtr value) {
  const int line = next().line;
  if (current().kind == TokenKind::kInteger) {
    ExprPtr key = make(ExprKind::kConstant, line);
    key->constant = Value::integer(next().integer);
    return make(ExprKind::kItem, line, list_of(std::move(value), std::move(key)));
  }
  ExprPtr expr = make(ExprKind::kAttribute, line, list_of(std::move(value)));
  expr->name = expect_name();
  return expr;
}

ExprPtr Parser::parse_subscript(ExprPtr value) {
  const Nested nested(*this);
  const int line = next().line;
  std::vector<ExprPtr> parts = list_of(std::move(value));
  bool is_slice = false;
  // A part that is left out stays null until the slice is known to be one.
  for (int i = 0; i < 3; ++i) {
    const bool left_out = sees_operator(":") || sees_operator("]");
    parts.push_back(left_out && (is_slice || sees_operator(":")) ? nullptr : parse_expression());
    if (!take_operator(":")) break;
    is_slice = true;
  }
  if (sees_operator(",")) {
    place_.fail(line, "a tuple between [ and ] is not supported: nothing here has such a key");
  }
  expect_operator("]");
  if (!is_slice) return make(ExprKind::kItem, line, std::move(parts));
  parts.resize(4);
  for (ExprPtr& part : parts) {
    if (part != nullptr) continue;
    part = make(ExprKind::kConstant, line);
    part->constant = Value::none();
  }
  return make(ExprKind::kSlice, line, std::move(parts));
}

void Parser::parse_arguments(Expr& call) {
  const Nested nested(*this);
  expect_operator("(");
  bool first = true;
  while (!sees_operator(")")) {
    if (!first) expect_operator(",");
    if (sees_operator(")")) break;
    first = false;
    if (sees_operator("*") || sees_operator("**")) {
      place_.fail(current().line, "* and ** in a call are not supported: name the arguments");
    }
    const bool is_named = current().kind == TokenKind::kName &&
                          ahead().kind == TokenKind::kOperator && ahead().text == "=";
    if (is_named) {
      std::string name = next().text;
      next();
      call.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!call.named.empty()) fail_unexpected("an argument with a name");
      call.parts.push_back(parse_expression());
    }
  }
  expect_operator(")");
}

ExprPtr Parser::parse_call(ExprPtr function) {
  const int line = current().line;
  ExprPtr expr = make(ExprKind::kCall, line, list_of(std::move(function)));
  parse_arguments(*expr);
  return checked(std::move(expr));
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr value) {
  while (true) {
    if (take_operator("|")) {
      value = parse_filter(std::move(value));
    } else if (take_name("is")) {
      value = parse_test(std::move(value));
    } else if (sees_operator("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr Parser::parse_filter(ExprPtr value) {
  const int line = current().line;
  ExprPtr expr = make(ExprKind::kFilter, line, list_of(std::move(value)));
  expr->name = expect_name();
  if (!is_filter(expr->name)) {
    unknown_.emplace_back(line, fmt::format("there is no filter '{}'; {}", expr->name,
                                            filter_suggestion(expr->name)));
  }
  if (sees_operator("(")) parse_arguments(*expr);
  return checked(std::move(expr));
}

ExprPtr Parser::parse_test(ExprPtr value) {
  const int line = current().line;
  const bool negated = take_name("not");
  ExprPtr expr = make(ExprKind::kTest, line, list_of(std::move(value)));
  expr->name = expect_name();
  if (!is_check(expr->name)) {
    unknown_.emplace_back(
        line, fmt::format("there is no test '{}'; {}", expr->name, check_suggestion(expr->name)));
  }
  const TokenKind kind = current().kind;
  const bool begins_value = kind == TokenKind::kName || kind == TokenKind::kString ||
                            kind == TokenKind::kInteger || kind == TokenKind::kReal ||
                            sees_operator("[") || sees_operator("{");
  if (sees_operator("(")) {
    parse_arguments(*expr);
  } else if (sees_name("is")) {
    place_.fail(line, "'is' behind 'is': join the tests with 'and'");
  } else if (begins_value && !sees_name("else") && !sees_name("or") && !sees_name("and")) {
    expr->parts.push_back(parse_postfix(parse_primary()));
  }
  expr = checked(std::move(expr));
  return negated ? make(ExprKind::kNot, line, list_of(std::move(expr))) : std::move(expr);
}

}  // namespace tessera::jinja
