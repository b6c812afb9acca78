#include "data/template/syntax/parser.h"

#include <algorithm>

#include "base/text/text.h"

namespace tessera::jinja {
namespace {

constexpr int kMaxNesting = 100;
constexpr int kMaxExprDepth = 150;

std::string words_of(const Token& token) {
  switch (token.kind) {
    case TokenKind::kVariableEnd:
      return "}}";
    case TokenKind::kBlockEnd:
      return "%}";
    case TokenKind::kString:
      return "the string " + in_quotes(token.text, 30);
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kData:
    case TokenKind::kVariableBegin:
    case TokenKind::kBlockBegin:
      return "text";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace

Parser::Parser(std::vector<Token> tokens, const Place& place)
    : tokens_(std::move(tokens)), place_(place) {}

Tree Parser::run() {
  tree_.body = parse_until({}, nullptr);
  if (!unknown_.empty()) place_.fail(unknown_.front().first, unknown_.front().second);
  return std::move(tree_);
}

const Token& Parser::ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }

Token Parser::next() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::sees_operator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}

bool Parser::sees_name(std::string_view text) const {
  return current().kind == TokenKind::kName && current().text == text;
}

bool Parser::take_operator(std::string_view text) {
  if (!sees_operator(text)) return false;
  next();
  return true;
}

bool Parser::take_name(std::string_view text) {
  if (!sees_name(text)) return false;
  next();
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!take_operator(text)) fail_unexpected("'" + std::string(text) + "'");
}

void Parser::expect(TokenKind kind) {
  if (current().kind != kind) fail_unexpected(words_of(Token{.kind = kind}));
  next();
}

std::string Parser::expect_name() {
  if (current().kind != TokenKind::kName) fail_unexpected("a name");
  return next().text;
}

void Parser::fail_unexpected(std::string_view wanted) const {
  place_.fail(current().line, fmt::format("{} where {} is expected", words_of(current()), wanted));
}

Symbol Parser::symbol_of(const std::string& name) {
  const auto [found, added] = symbols_.emplace(name, static_cast<Symbol>(tree_.names.size()));
  if (added) tree_.names.push_back(name);
  return found->second;
}

ExprPtr Parser::make(ExprKind kind, int line, std::vector<ExprPtr> parts) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  expr->parts = std::move(parts);
  return checked(std::move(expr));
}

ExprPtr Parser::checked(ExprPtr expr) const {
  int depth = 0;
  for (const ExprPtr& part : expr->parts) {
    if (part != nullptr) depth = std::max(depth, part->depth);
  }
  for (const auto& [name, value] : expr->named) depth = std::max(depth, value->depth);
  expr->depth = depth + 1;
  if (expr->depth > kMaxExprDepth) {
    place_.fail(expr->line, fmt::format("an expression has more than {} parts inside each other: "
                                        "split it with {{% set %}}",
                                        kMaxExprDepth));
  }
  return expr;
}

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting) {
    --parser_.nesting_;
    parser_.place_.fail(
        parser_.current().line,
        fmt::format("more than {} blocks or brackets inside each other", kMaxNesting));
  }
}

Tree parse_template(std::string_view source, const Place& place) {
  return Parser(tokenize(source, place), place).run();
}

}  // namespace tessera::jinja
