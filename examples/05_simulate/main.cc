// What every rank does in a step, and what one slow GPU costs all others.
#include <tessera/tessera.h>

#include <cstdio>
#include <fstream>
#include <string>

using tessera::Json;

Json request() {
  return {{"model", "llama-3-8b"},
          {"cluster", "h100-8"},
          {"pp", 4},
          {"dp", 2},
          {"seq_len", 4096},
          {"zero", 1},
          {"global_batch", 16},
          {"micro_batch", 1}};
}

void print_ranks(const Json& simulated) {
  for (const Json& kind : simulated.at("classes")) {
    std::printf("  %-8s (%zu ranks) computes %6.1f ms, waits %6.1f ms\n",
                kind.at("coords").get<std::string>().c_str(), kind.at("ranks").size(),
                1e3 * kind.at("compute_s").get<double>(), 1e3 * kind.at("idle_s").get<double>());
  }
}

int main(int argc, char** argv) {
  try {
    const Json simulated = tessera::simulate(request());
    const double step_s = simulated.at("step_s").get<double>();
    std::printf("a step takes %.1f ms\n", 1e3 * step_s);
    print_ranks(simulated);

    Json slow = request();
    slow["slow"] = {"rank=3,factor=1.3"};
    const double slow_s = tessera::simulate(slow).at("step_s").get<double>();
    std::printf("with one GPU 1.3 times slower: %.1f ms, %.0f %% more\n", 1e3 * slow_s,
                100 * (slow_s / step_s - 1));

    if (argc > 1) std::ofstream(argv[1]) << tessera::simulation_picture(request());
    return slow_s > step_s ? 0 : 1;
  } catch (const tessera::Refusal& refusal) {
    std::fprintf(stderr, "error: %s\n", refusal.what());
    return refusal.exit_code();
  }
}
