// Plans Llama 3 405B on 16,384 GPUs, without one of them: does it fit, and what would make it fit?
// Then the fastest of all splits of a smaller one.
#include <tessera/tessera.h>

#include <cstdio>
#include <string>

using tessera::Json;

double gigabytes(const Json& bytes) { return bytes.get<double>() / 1e9; }

void print_step(const Json& plan) {
  std::printf("  a step takes %.2f s: %.0f tokens/s, MFU %.1f %%\n",
              plan.at("time").at("step_s").get<double>(),
              plan.at("rates").at("tokens_per_s").get<double>(),
              100 * plan.at("rates").at("mfu").get<double>());
}

void plan_one_split() {
  Json request = {{"model", "llama-3-405b"},
                  {"cluster", "h100-16384"},
                  {"seq_len", 8192},
                  {"tp", 8},
                  {"pp", 16},
                  {"zero", 1}};
  const Json plan = tessera::plan(request);
  std::printf("%lld parameters, tp 8 x pp 16 x dp %d\n", plan.at("parameters").get<long long>(),
              plan.at("mesh").at("dp").get<int>());
  std::printf("  the fullest rank needs %.1f GB of %.1f GB: it %s\n",
              gigabytes(plan.at("peak_bytes")), gigabytes(plan.at("limit_bytes")),
              plan.at("fits").get<bool>() ? "fits" : "does not fit");
  if (plan.at("fits").get<bool>()) return print_step(plan);

  // Changes that make it fit come with the plan, the best first; each is a list of settings.
  for (const Json& change : plan.at("changes")) {
    std::printf("  %.1f GB with", gigabytes(change.at("peak_bytes")));
    for (const Json& setting : change.at("settings")) {
      std::printf(" %s", setting.get<std::string>().c_str());
    }
    std::printf("\n");
  }
}

void find_the_best_split() {
  const Json found = tessera::search({{"model", "llama-3-8b"},
                                      {"cluster", "h100-8"},
                                      {"seq_len", 8192},
                                      {"global_batch", 128},
                                      {"top", 1}});
  const Json& best = found.at("plans").at(0);
  std::printf("llama-3-8b on 8 GPUs, the fastest of %lld configurations:\n  %s\n",
              found.at("configurations").get<long long>(), best.at("strategy").dump().c_str());
  print_step(best);
}

int main() {
  try {
    plan_one_split();
    find_the_best_split();
    // Mistakes are named, with what to write instead.
    tessera::plan({{"model", "llama-3-405"}, {"cluster", "h100-16384"}});
  } catch (const tessera::Refusal& refusal) {
    std::printf("refused (exit code %d): %s\n", refusal.exit_code(), refusal.what());
    return refusal.exit_code() == 2 ? 0 : 1;
  }
  return 1;
}
