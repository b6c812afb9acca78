// Which weights decay: what [optimizer] says, tensor by tensor.
#pragma once

#include <string>
#include <vector>

#include "compile/model/model_tensors.h"
#include "spec/run_spec.h"

namespace tessera {

class DecayRule {
 public:
  // Throws ConfigError for patterns that cannot be read.
  explicit DecayRule(const OptimizerSpec& optimizer);

  // Whether tensors that are stored as one weight decay. Throws ConfigError where the patterns part
  // them, or where a tensor is to decay and not to.
  bool of(const std::vector<LogicalTensor>& parts, bool matrix);

  // Throws ConfigError for a pattern that none of the tensors so far had.
  void require_all_used() const;

 private:
  struct Pattern {
    std::string text;
    bool used = false;
  };
  static bool any(std::vector<Pattern>& patterns, const std::string& name);
  bool of(const LogicalTensor& tensor, bool matrix);

  DecayOn on_;
  std::vector<Pattern> also_, not_;
  std::string example_;  // a name that a pattern could have had
};

}  // namespace tessera
