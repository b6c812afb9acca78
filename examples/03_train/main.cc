// Trains a small model on two ranks, threads of this program, and holds what was measured against
// the plan.
#include <tessera/tessera.h>

#include <cstdio>
#include <string>

using tessera::Json;

constexpr const char* kRun = R"toml(
[model]
layers = 2
hidden = 64
ffn = 172
heads = 4
vocab = 256   # bytes

[parallel]
dp = 2
zero = 1      # optimizer states split over the two

[train]
seq_len = 64
micro_batch = 2
global_batch = 8
steps = 30
device = "cpu"

[optimizer]
lr = 3e-3
warmup = 5

[data]
synth = { seed = 7, bytes = 100000 }
)toml";

int main(int argc, char** argv) {
  const std::string run_dir = argc > 1 ? argv[1] : "runs/example";
  try {
    const Json plan =
        tessera::plan({{"run_file", "small.toml"}, {"files", {{"small.toml", kRun}}}});

    double first = 0;
    const Json summary = tessera::train(
        {.run_file = "small.toml", .run_text = kRun, .set = {"logging.run_dir=" + run_dir}},
        [&](const tessera::TrainedStep& now) {
          if (now.step == 1) first = now.loss;
          if (now.step == 1 || now.step % 10 == 0) {
            std::printf("step %lld of %lld: loss %.3f\n", static_cast<long long>(now.step),
                        static_cast<long long>(now.steps), now.loss);
          }
          return true;  // false would end the training here
        });

    // Memory, traffic and the digest of the instructions, rank by rank.
    const bool as_planned = plan.at("ranks") == summary.at("ranks");
    std::printf("bytes and instructions of %zu ranks are %s\n", summary.at("ranks").size(),
                as_planned ? "as planned" : "NOT as planned");
    const double last = summary.at("final_loss").get<double>();
    std::printf("the loss %s\n", last < first ? "fell" : "did NOT fall");
    return as_planned && last < first ? 0 : 1;
  } catch (const tessera::Refusal& refusal) {
    std::fprintf(stderr, "error: %s\n", refusal.what());
    return refusal.exit_code();
  }
}
