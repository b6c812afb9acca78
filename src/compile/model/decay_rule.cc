#include "compile/model/decay_rule.h"

#include "base/error.h"
#include "spec/name_patterns.h"

namespace tessera {
namespace {

constexpr const char* kAlso = "optimizer.weight_decay_also";
constexpr const char* kNot = "optimizer.weight_decay_not";

}  // namespace

DecayRule::DecayRule(const OptimizerSpec& optimizer) : on_(optimizer.weight_decay_on) {
  for (std::string& text : name_patterns(kAlso, optimizer.weight_decay_also)) {
    also_.push_back({std::move(text)});
  }
  for (std::string& text : name_patterns(kNot, optimizer.weight_decay_not)) {
    not_.push_back({std::move(text)});
  }
}

bool DecayRule::any(std::vector<Pattern>& patterns, const std::string& name) {
  bool found = false;
  for (Pattern& pattern : patterns) {
    if (!matches_pattern(pattern.text, name)) continue;
    pattern.used = true;
    found = true;
  }
  return found;
}

bool DecayRule::of(const LogicalTensor& tensor, bool matrix) {
  const bool usual = on_ == DecayOn::kAll || (on_ == DecayOn::kMatrices && matrix);
  if (also_.empty() && not_.empty()) return usual;  // names of many experts take their time
  const std::string name = without_block(tensor.stored.name);
  if (example_.empty() || name.find('*') != std::string::npos) example_ = name;
  const bool also = any(also_, name);
  const bool not_this = any(not_, name);
  require_config(!also || !not_this, "{} and {} both name '{}'; leave it out of one", kAlso, kNot,
                 name);
  return also || not_this ? also : usual;
}

bool DecayRule::of(const std::vector<LogicalTensor>& parts, bool matrix) {
  const bool first = of(parts.front(), matrix);
  for (const LogicalTensor& part : parts) {
    require_config(
        of(part, matrix) == first,
        "[optimizer] lets one of '{}' and '{}' decay, which are kept as one matrix; name "
        "both in weight_decay_also or weight_decay_not, or neither",
        without_block(parts.front().stored.name), without_block(part.stored.name));
  }
  return first;
}

void DecayRule::require_all_used() const {
  for (const auto& [key, patterns] : {std::pair(kAlso, &also_), std::pair(kNot, &not_)}) {
    for (const Pattern& pattern : *patterns) {
      require_config(pattern.used,
                     "{} = \"{}\" names no tensor of the model; names are those of its Hugging "
                     "Face files, with * for the number of a block: {}",
                     key, pattern.text, example_);
    }
  }
}

}  // namespace tessera
