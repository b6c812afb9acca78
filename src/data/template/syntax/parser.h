// From tokens to a tree, by Jinja's grammar. What it has and this has not (include, import,
// extends, block, recursive loops, ...) is refused by name.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/template/syntax/lexer.h"
#include "data/template/syntax/node.h"

namespace tessera::jinja {

// Throws ConfigError with the line.
Tree parse_template(std::string_view source, const Place& place);

class Parser {
 public:
  Parser(std::vector<Token> tokens, const Place& place);
  Tree run();

 private:
  // Tokens (parser.cc).
  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  [[nodiscard]] const Token& ahead() const;
  Token next();
  [[nodiscard]] bool sees_operator(std::string_view text) const;
  [[nodiscard]] bool sees_name(std::string_view text) const;
  bool take_operator(std::string_view text);
  bool take_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect(TokenKind kind);
  std::string expect_name();
  [[noreturn]] void fail_unexpected(std::string_view wanted) const;
  Symbol symbol_of(const std::string& name);
  ExprPtr make(ExprKind kind, int line, std::vector<ExprPtr> parts = {}) const;
  [[nodiscard]] ExprPtr checked(ExprPtr expr) const;  // depth, once all parts are there

  // Counts how deep parsing is inside itself.
  class Nested {
   public:
    explicit Nested(Parser& parser);
    ~Nested() { --parser_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  // Statements (parse_statement.cc). Bodies end at one of `ends`, which is taken.
  Block parse_until(const std::vector<std::string_view>& ends, std::string* found);
  Block parse_body(const std::vector<std::string_view>& ends, std::string* found = nullptr);
  Statement parse_statement();
  Statement parse_for(int line);
  Statement parse_if(int line);
  Statement parse_set(int line);
  Statement parse_macro(int line);
  Statement parse_call_block(int line);
  Statement parse_filter_block(int line);
  Statement parse_with(int line);
  Statement parse_generation(int line);
  void parse_signature(MacroNode& macro);
  Block parse_macro_body(MacroNode& macro, std::string_view end);
  Block parse_captured_body(std::string_view end);
  Target parse_target(bool with_attributes);
  Target parse_one_target(bool with_attributes);
  [[noreturn]] void fail_tag(const Token& tag) const;

  // Expressions (parse_expression.cc), in the order of how loosely they bind.
  ExprPtr parse_tuple(bool with_condition = true, bool in_parentheses = false);
  ExprPtr parse_expression();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr value);
  ExprPtr parse_attribute(ExprPtr value);
  ExprPtr parse_subscript(ExprPtr value);
  ExprPtr parse_call(ExprPtr function);
  ExprPtr parse_filters_and_tests(ExprPtr value);
  ExprPtr parse_filter(ExprPtr value);  // the name and what follows; `value` may be null
  ExprPtr parse_test(ExprPtr value);
  void parse_arguments(Expr& call);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  const Place& place_;
  Tree tree_;
  std::unordered_map<std::string, Symbol> symbols_;
  int nesting_ = 0;
  int loops_ = 0;               // around this place, in the same macro
  MacroNode* macro_ = nullptr;  // around this place
  bool captured_ = false;       // in a macro or a block whose text goes elsewhere
  bool in_generation_ = false;
  // Unknown filters and tests. Jinja lets them stand where an `if` may keep them from being used.
  std::vector<std::pair<int, std::string>> unknown_;
};

}  // namespace tessera::jinja
