// A template as a tree. Names are numbers (symbols), so that looking one up compares no text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/template/values/arithmetic.h"
#include "data/template/values/compare.h"
#include "data/template/values/value.h"

namespace tessera::jinja {

using Symbol = uint32_t;

enum class ExprKind : uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,       // parts: key, value, key, value
  kAttribute,  // parts: value
  kItem,       // parts: value, key
  kSlice,      // parts: value, start, stop, step; those left out are none
  kCall,       // parts: function, arguments; named
  kFilter,     // parts: value (absent in a filter block), arguments; named
  kTest,       // parts: value, arguments; named
  kNot,
  kAnd,
  kOr,
  kConditional,  // parts: condition, value, and the other one if there is an else
  kCompare,      // parts: one more than comparisons
  kConcat,
  kArithmetic,
  kNegate,
  kPlus,
};

enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 1;
  int depth = 1;      // of the tree below
  Value constant;     // of kConstant
  std::string name;   // of a name, an attribute, a filter, a test
  Symbol symbol = 0;  // of a name
  Arithmetic op = Arithmetic::kAdd;
  std::vector<CompareOp> comparisons;
  std::vector<ExprPtr> parts;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

struct Statement;
using Block = std::vector<Statement>;

// What a value is assigned to: a name, an attribute of a namespace, or several of them.
struct Target {
  Symbol symbol = 0;
  std::string name;
  std::string attribute;         // not empty: name.attribute
  std::vector<Target> elements;  // not empty: a tuple
};

struct TextNode {
  std::string text;
};
struct PrintNode {
  ExprPtr value;
};
struct ForNode {
  Target target;
  ExprPtr values;
  ExprPtr condition;  // may be null
  Block body, otherwise;
};
struct IfNode {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct SetNode {
  Target target;
  ExprPtr value;
};
struct SetBlockNode {
  Target target;
  ExprPtr filter = nullptr;  // may be null
  Block body;
};
struct Parameter {
  Symbol symbol = 0;
  std::string name;
  ExprPtr otherwise;  // may be null
};
struct MacroNode {
  Symbol symbol = 0;
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  // Whether the body asks for what a call has more than parameters.
  bool takes_more_values = false, takes_more_names = false, takes_caller = false;
};
struct CallBlockNode {
  std::unique_ptr<MacroNode> caller;
  ExprPtr call = nullptr;
};
struct FilterBlockNode {
  ExprPtr filter;
  Block body;
};
struct WithNode {
  std::vector<std::pair<Target, ExprPtr>> values;
  Block body;
};
struct GenerationNode {
  Block body;
};
struct BreakNode {};
struct ContinueNode {};

struct Statement {
  int line = 1;
  std::variant<TextNode, PrintNode, ForNode, IfNode, SetNode, SetBlockNode,
               std::unique_ptr<MacroNode>, CallBlockNode, FilterBlockNode, WithNode, GenerationNode,
               BreakNode, ContinueNode>
      node;
};

struct Tree {
  Block body;
  std::vector<std::string> names;  // by symbol
  bool has_generation = false;     // {% generation %} marks what carries loss
};

}  // namespace tessera::jinja
