#include "data/template/functions/access.h"
#include "data/template/functions/checks.h"
#include "data/template/functions/filters.h"
#include "data/template/renderer.h"
#include "data/template/values/write.h"

namespace tessera::jinja {

std::vector<Value> Renderer::eval_parts(const Expr& expr, size_t first) {
  std::vector<Value> values;
  for (size_t i = first; i < expr.parts.size(); ++i) values.push_back(eval(*expr.parts[i]));
  return values;
}

Arguments Renderer::eval_arguments(const Expr& expr) {
  Arguments arguments{.values = eval_parts(expr, 1)};
  for (const auto& [name, value] : expr.named) arguments.named.emplace_back(name, eval(*value));
  return arguments;
}

Value Renderer::eval(const Expr& expr) {
  const Deeper deeper(*this, expr.line);
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
      return eval_name(expr);
    case ExprKind::kList:
      return make_list(budget_, eval_parts(expr, 0));
    case ExprKind::kTuple:
      return make_items(budget_, ItemsKind::kTuple, eval_parts(expr, 0));
    case ExprKind::kDict:
      return eval_dict(expr);
    case ExprKind::kAttribute:
    case ExprKind::kItem:
    case ExprKind::kSlice:
      return eval_access(expr);
    case ExprKind::kCall: {
      const Value function = eval(*expr.parts.front());
      const Arguments arguments = eval_arguments(expr);
      line_ = expr.line;
      return call(function, arguments);
    }
    case ExprKind::kFilter: {
      const Value value = expr.parts.front() == nullptr ? filter_input_ : eval(*expr.parts.front());
      const Arguments arguments = eval_arguments(expr);
      line_ = expr.line;
      return apply_filter(budget_, expr.name, value, arguments);
    }
    case ExprKind::kTest: {
      const Value value = eval(*expr.parts.front());
      const Arguments arguments = eval_arguments(expr);
      return Value::boolean(apply_check(budget_, expr.name, value, arguments));
    }
    case ExprKind::kConditional:
      return eval_conditional(expr);
    case ExprKind::kCompare:
      return eval_compare(expr);
    case ExprKind::kConcat:
      return eval_concat(expr);
    default:
      return eval_operator(expr);
  }
}

Value Renderer::eval_name(const Expr& expr) {
  if (const Value* value = scopes_.find(expr.symbol)) return *value;
  if (expr.name == "joiner" || expr.name == "cycler" || expr.name == "lipsum") {
    fault("'{}' is not supported: keep what it counts in a namespace()", expr.name);
  }
  return Value::undefined(fmt::format("'{}' is undefined", expr.name));
}

Value Renderer::eval_dict(const Expr& expr) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
    Value key = eval(*expr.parts[i]);
    entries.emplace_back(std::move(key), eval(*expr.parts[i + 1]));
  }
  return make_dict(budget_, std::move(entries));
}

Value Renderer::eval_access(const Expr& expr) {
  const Value value = eval(*expr.parts.front());
  line_ = expr.line;
  if (expr.kind == ExprKind::kAttribute) return get_attribute(budget_, value, expr.name);
  const Value first = eval(*expr.parts[1]);
  if (expr.kind == ExprKind::kItem) return get_item(budget_, value, first);
  const Value stop = eval(*expr.parts[2]);
  const Value step = eval(*expr.parts[3]);
  return get_slice(budget_, value, first, stop, step);
}

Value Renderer::eval_conditional(const Expr& expr) {
  if (truth(eval(*expr.parts[0]))) return eval(*expr.parts[1]);
  if (expr.parts.size() > 2) return eval(*expr.parts[2]);
  return Value::undefined("the condition of an 'if' without 'else' does not hold");
}

// a < b < c holds where both do; c is not looked at when a < b does not.
Value Renderer::eval_compare(const Expr& expr) {
  Value left = eval(*expr.parts.front());
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    Value right = eval(*expr.parts[i + 1]);
    line_ = expr.line;
    const CompareOp op = expr.comparisons[i];
    const bool holds = op == CompareOp::kIn ? contains(budget_, right, left)
                       : op == CompareOp::kNotIn
                           ? !contains(budget_, right, left)
                           : compare(budget_, static_cast<Comparison>(op), left, right);
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Renderer::eval_concat(const Expr& expr) {
  std::string text;
  for (const ExprPtr& part : expr.parts) {
    const Value value = eval(*part);
    if (const std::string* held = value.text()) {
      text += *held;
    } else {
      text += text_of(budget_, value);
    }
  }
  return make_text(budget_, std::move(text));
}

Value Renderer::eval_operator(const Expr& expr) {
  Value left = eval(*expr.parts.front());
  switch (expr.kind) {
    case ExprKind::kNot:
      return Value::boolean(!truth(left));
    case ExprKind::kAnd:
      return truth(left) ? eval(*expr.parts[1]) : left;
    case ExprKind::kOr:
      return truth(left) ? left : eval(*expr.parts[1]);
    case ExprKind::kNegate:
      return negate(left);
    case ExprKind::kPlus:
      return plus(left);
    default:
      break;
  }
  const Value right = eval(*expr.parts[1]);
  line_ = expr.line;
  return compute(budget_, expr.op, left, right);
}

}  // namespace tessera::jinja
