#include "graph/gradients.h"

namespace tessera {

void Gradients::contribute(ValueId of, OpKind op, std::vector<ValueId> inputs, const Attrs& attrs,
                           Tag tag) {
  const ValueId before = this->of(of);
  if (before == kNoValue) {
    known_[of] = graph_.add_one(op, inputs, name(of), attrs, tag);
  } else if (can_accumulate(op)) {
    inputs.push_back(before);
    known_[of] = graph_.add_one(op, inputs, name(of), attrs, tag, /*accumulate=*/true);
  } else {
    contribute_value(of, graph_.add_one(op, inputs, name(of), attrs, tag), tag);
  }
}

void Gradients::contribute_value(ValueId of, ValueId dy, Tag tag) {
  const ValueId before = this->of(of);
  known_[of] =
      before == kNoValue ? dy : graph_.add_one(OpKind::kAdd, {before, dy}, name(of), {}, tag);
}

void Gradients::contribute_weight(ValueId of, OpKind op, std::vector<ValueId> inputs, Attrs attrs,
                                  Tag tag) {
  attrs.narrow = narrow_;
  contribute(of, op, std::move(inputs), attrs, with_pass(tag, Pass::kWeightGrad));
}

void Gradients::contribute_pair(ValueId first, ValueId second, OpKind op,
                                const std::vector<ValueId>& inputs, const Attrs& attrs, Tag tag) {
  const std::vector<ValueId> both = graph_.add(op, inputs, {name(first), name(second)}, attrs, tag);
  contribute_value(first, both[0], tag);
  contribute_value(second, both[1], tag);
}

}  // namespace tessera
