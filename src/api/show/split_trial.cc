#include "api/show/split_trial.h"

#include <algorithm>
#include <vector>

#include "api/chosen_split.h"
#include "api/recipe.h"
#include "base/error.h"
#include "compile/model/limits.h"
#include "compile/pipeline/schedule/run_schedule.h"
#include "compile/pipeline/stages.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "plan/estimate_run.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

std::string flag_of(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

// Where the value of a size or a word is kept.
std::string& value_of(SplitFlags& split, std::string_view name) {
  const std::string flag = flag_of(name);
  for (SplitFlags::Size& size : split.sizes) {
    if (size.flag == flag) return size.value;
  }
  for (SplitFlags::Word& word : split.words) {
    if (word.flag == flag) return word.value;
  }
  throw InternalError(fmt::format("a split has no {}", name));
}

void set(SplitFlags& split, std::string_view name, const std::string& value) {
  if (name == "sequence_parallel") {
    split.sequence_parallel = value == "true";
  } else {
    value_of(split, name) = value;
  }
}

PlanQuery with_its_recipe(PlanQuery query, const FileReader& read) {
  std::vector<Guess> notes;
  use_recipe(query.split, query.split.cluster, query.source, read, notes);
  return query;
}

Cluster cluster_of(const PlanQuery& query, const FileReader& read) {
  const std::string name = cluster_for(query.source, query.split, read);
  require_config(!name.empty(), "choices: no cluster is named: give one, as in --cluster h100-8");
  return find_cluster(name, read);
}

}  // namespace

SplitTrial::SplitTrial(const PlanQuery& query, const Surroundings& around)
    : around_(around), engine_(find_engine(query.split.engine, around.read)) {
  const PlanQuery whole = with_its_recipe(query, around.read);
  source_ = whole.source;
  split_ = whole.split;
  cluster_ = cluster_of(whole, around.read);
}

std::string SplitTrial::said(std::string_view name) const {
  if (name == "sequence_parallel") return split_.sequence_parallel ? "true" : "";
  SplitFlags split = split_;
  return value_of(split, name);
}

void SplitTrial::say(std::string_view name, const std::string& value) { set(split_, name, value); }

void SplitTrial::keep_length() {
  const bool may_be_said = !source_.file.empty() || !source_.overrides.empty() ||
                           !split_.recipe_settings.empty() || !said("seq_len").empty();
  if (!may_be_said) say("seq_len", std::to_string(run().train.seq_len));
}

RunSpec SplitTrial::run() const {
  return load_possible_split(source_, split_, cluster_, engine_, around_.read);
}

// What a plan looks at before it compiles anything.
void SplitTrial::check(const SplitFlags& split) const {
  const RunSpec spec = load_possible_split(source_, split, cluster_, engine_, around_.read);
  priced_strategy(spec, cluster_, engine_,
                  asks_for_fp8(split) ? BlockProducts::kFp8 : BlockProducts::kAsTrained);
  if (!untrainable_choice(spec.model).empty()) return;
  require_writable_graph(spec);
  if (spec.parallel.pp > 1) lay_out_stages(spec, /*training=*/true);
}

std::string SplitTrial::why_not(const SplitFlags& split) const {
  try {
    check(split);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string SplitTrial::why_not() const { return why_not(split_); }

std::string SplitTrial::why_not(std::string_view name, const std::string& value) const {
  SplitFlags other = split_;
  set(other, name, value);
  std::string why = why_not(other);
  if (why.empty() || name == "dp" || !value_of(other, "dp").empty()) return why;
  // What is wrong with one replica says more than that the devices cannot be divided by it.
  value_of(other, "dp") = "1";
  std::string of_one = why_not(other);
  return of_one.empty() ? why : of_one;
}

}  // namespace tessera
