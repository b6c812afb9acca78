// Trying splits of a run without planning them.
#pragma once

#include <string>
#include <string_view>

#include "api/plan.h"
#include "api/surroundings.h"

namespace tessera {

class SplitTrial {
 public:
  // ConfigError where no cluster is named. `around` must outlive this.
  SplitTrial(const PlanQuery& query, const Surroundings& around);

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  // What was said: "8" of "tp"; empty: nothing was.
  [[nodiscard]] std::string said(std::string_view name) const;
  // Says something else, or nothing, from now on.
  void say(std::string_view name, const std::string& value);

  // Says the length of sequences that a plan would take, so that it need not be found out again.
  void keep_length();

  // Why a plan would refuse what is said, or that with another value of `name`; empty: it accepts.
  [[nodiscard]] std::string why_not() const;
  [[nodiscard]] std::string why_not(std::string_view name, const std::string& value) const;

  // The run that a plan would begin with.
  [[nodiscard]] RunSpec run() const;

 private:
  void check(const SplitFlags& split) const;
  [[nodiscard]] std::string why_not(const SplitFlags& split) const;

  const Surroundings& around_;
  RunSource source_;
  SplitFlags split_;
  Cluster cluster_;
  Engine engine_;
};

}  // namespace tessera
