// Walks the tree of a template and writes its text.
#pragma once

#include <ctime>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/template/chat_template.h"
#include "data/template/scope.h"
#include "data/template/syntax/lexer.h"
#include "data/template/syntax/node.h"
#include "data/template/values/arguments.h"
#include "data/template/values/loop.h"

namespace tessera::jinja {

// One rendering; used once.
class Renderer {
 public:
  Renderer(const Tree& tree, const Place& place, Budget& budget, std::optional<std::tm> now);

  // Throws ConfigError with the line of what failed.
  RenderedChat run(const nlohmann::ordered_json& context);

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };

  // How deep this is inside itself, and the line for messages.
  class Deeper {
   public:
    Deeper(Renderer& renderer, int line);
    ~Deeper() { --renderer_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Renderer& renderer_;
  };

  // Statements (render_statement.cc).
  Flow run_block(const Block& block);
  Flow run_statement(const Statement& statement);
  Flow run(const TextNode& node);
  Flow run(const PrintNode& node);
  Flow run(const ForNode& node);
  Flow run(const IfNode& node);
  Flow run(const SetNode& node);
  Flow run(const SetBlockNode& node);
  Flow run(const std::unique_ptr<MacroNode>& node);
  Flow run(const CallBlockNode& node);
  Flow run(const FilterBlockNode& node);
  Flow run(const WithNode& node);
  Flow run(const GenerationNode& node);
  Flow run(const BreakNode& node);
  Flow run(const ContinueNode& node);
  void write(std::string_view text);
  std::string captured(const Block& body);  // in a scope of its own
  void assign(const Target& target, const Value& value);
  Value filtered(const Expr* filter, Value value);

  // Expressions (render_expression.cc).
  Value eval(const Expr& expr);
  Value eval_name(const Expr& expr);
  Value eval_dict(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_concat(const Expr& expr);
  Value eval_conditional(const Expr& expr);
  Value eval_operator(const Expr& expr);
  Value eval_access(const Expr& expr);
  std::vector<Value> eval_parts(const Expr& expr, size_t first);
  Arguments eval_arguments(const Expr& expr);

  // Calls (render_call.cc).
  void add_functions();
  Value make_macro(const MacroNode& macro);
  Value call(const Value& function, const Arguments& arguments);
  Value call_macro(const Callable& macro, const Arguments& arguments);
  void bind_parameters(const MacroNode& macro, const Arguments& arguments);
  void bind_more(const MacroNode& macro, const Arguments& arguments);
  Value call_function(const std::string& name, const Arguments& arguments);
  Value make_namespace(const Arguments& arguments);
  void set_name(std::string_view name, Value value);  // where the template mentions it

  const Tree& tree_;
  const Place& place_;
  Budget& budget_;
  std::optional<std::tm> now_;
  std::unordered_map<std::string_view, Symbol> symbols_;
  Scopes scopes_;
  std::deque<Namespace> namespaces_;
  RenderedChat rendered_;
  std::string* out_ = &rendered_.text;
  Value filter_input_;  // what the filter of a block is applied to
  int depth_ = 0;
  int line_ = 1;
};

}  // namespace tessera::jinja
