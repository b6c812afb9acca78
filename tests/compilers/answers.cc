// Prints the answers of the planner's core to random requests: tools/compare_compilers.sh builds it
// with two compilers and compares the bytes.
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "compile/model_flops.h"
#include "compile/schedule/run_schedule.h"
#include "compile/step.h"
#include "cost/testing/random_requests.h"
#include "spec/model_catalogue.h"
#include "spec/model_size.h"
#include "spec/run_file.h"
#include "spec/validate.h"

namespace tessera {
namespace {

constexpr const char* kRunFile =
    "[model]\nlayers = 2\nhidden = 32\nffn = 48\nheads = 4\nvocab = 64\n[train]\nseq_len = 16\n";

std::string explained(const std::vector<std::string>& words) {
  GivenTexts given;
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals != std::string::npos)
      given[words[i].substr(2, equals - 2)] = words[i].substr(equals + 1);
  }
  const Explanation e = explain(find_topic(words[1]), given);
  return text_of(e) + json_of(e).dump();
}

std::string planned(const std::vector<std::string>& words) {
  std::vector<std::string> overrides;
  std::string mesh;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--set") overrides.push_back(words[++i]);
    if (words[i].starts_with("--mesh=")) mesh = words[i].substr(7);
  }
  RunSpec spec = parse_run_file(kRunFile, "run.toml", overrides, nullptr);
  if (!mesh.empty()) spec.parallel = parse_mesh(mesh, spec.parallel);
  resolve(spec);
  const StepGraph step = build_step(spec, StepKind::kTraining);
  std::string text = model_flops_text(spec);
  for (const Program& program : compile_ranks(step)) {
    for (const int64_t bytes : program.arena_bytes) text += fmt::format(" {}", bytes);
    for (const Traffic& t : traffic_of(program)) {
      text += fmt::format(" {} {} {} {}", t.group, t.op, t.calls, t.bytes_sent);
    }
  }
  return text;
}

std::string answer(testing::Dice& dice) {
  try {
    return dice.one_in(8) ? planned(testing::random_overrides(dice))
                          : explained(testing::random_explain(dice));
  } catch (const ConfigError& error) {
    return error.what();
  }
}

void print_models() {
  for (const std::string_view name : model_names()) {
    const ModelSize size = model_size(find_model(std::string(name)).model);
    std::printf("%s %lld %lld\n", std::string(name).c_str(), static_cast<long long>(size.total),
                static_cast<long long>(size.active));
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 2000;
  tessera::testing::Dice dice(7);
  tessera::print_models();
  for (int i = 0; i < count; ++i) std::puts(tessera::answer(dice).c_str());
  return 0;
}
