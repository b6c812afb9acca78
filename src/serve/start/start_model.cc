#include "serve/start/start_model.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/step.h"
#include "serve/ranks/host_options.h"
#include "serve/replicas/routing_generator.h"
#include "serve/start/replica.h"
#include "serve/start/speech.h"
#include "train/verify/model_folder.h"
#include "train/weights/weights.h"

namespace tessera::serve {
namespace {

namespace fs = std::filesystem;

void check(const StartOptions& options) {
  const ServeOptions& ranks = options.ranks;
  require_config(!ranks.model.empty(),
                 "no model is named: give a run directory, a checkpoint, or a Hugging Face folder");
  for (const auto& [name, count] :
       {std::pair{"tp", ranks.tp}, std::pair{"pp", ranks.pp}, std::pair{"ep", ranks.ep}}) {
    require_config(count >= 1, "{} is {}: use 1 or more", name, count);
  }
  require_config(options.replicas >= 1 && options.replicas <= kMostReplicas,
                 "dp is {}: use 1 to {} replicas", options.replicas, kMostReplicas);
  require_config(options.restarts >= 0, "{} restarts: use 0 or more", options.restarts);
  const bool known =
      ranks.dtype == DType::kF64 || ranks.dtype == DType::kF32 || ranks.dtype == DType::kBF16;
  require_config(known, "a model is served in f64, f32 or bf16, not in {}", name_of(ranks.dtype));
}

// Without its weights a run can be planned, but not served.
void check_weights(const ModelFolder& folder) {
  if (!folder.is_run || folder.is_checkpoint) return;
  for (const char* file :
       {"model.safetensors", "model.safetensors.index.json", "weights.safetensors"}) {
    if (fs::exists(fs::path(folder.path) / file)) return;
  }
  throw ConfigError(fmt::format(
      "the run in '{}' has no model.safetensors: it did not come to its end; train it again, or "
      "name one of its checkpoints",
      folder.path));
}

// Names and shapes are compared before memory is taken for a model that they may not be of. Those
// of checkpoints are with their bytes, as they are read.
void check_shapes(const ModelFolder& folder) {
  constexpr int64_t kAnyLength = 32;
  if (folder.is_checkpoint) return;
  RunSpec spec = folder.spec;
  spec.train.seq_len = std::min(spec.train.seq_len, kAnyLength);
  (void)hf_weights(folder.path, build_step(spec, StepKind::kForward).layout);
}

std::string name_of_model(const std::string& model) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(model, error);
  return (error ? fs::path(model) : whole).filename().string();
}

ServedModel describe(const StartOptions& options, const ServePlan& plan, Speech speech) {
  ServedModel served;
  served.id = options.name.empty() ? name_of_model(options.ranks.model) : options.name;
  served.created = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  served.words = std::move(speech.words);
  served.vocab = plan.shape.vocab;
  served.max_context = plan.shape.max_context;
  served.make_grammar = std::move(speech.make_grammar);
  return served;
}

class Started final : public StartedModel {
 public:
  Started(ServePlan plan, ServedModel served, std::vector<Replica> replicas)
      : plan_(std::move(plan)), served_(std::move(served)) {
    std::vector<std::unique_ptr<Generator>> generators;
    for (Replica& replica : replicas) {
      generators.push_back(std::move(replica.generator));
      gave_up_.push_back(std::move(replica.gave_up));
    }
    if (generators.size() == 1) {
      generator_ = std::move(generators.front());
    } else {
      generator_ = std::make_unique<RoutingGenerator>(std::move(generators), plan_.shape.page_size);
    }
  }

  [[nodiscard]] Generator& generator() override { return *generator_; }
  [[nodiscard]] const ServePlan& plan() const override { return plan_; }
  [[nodiscard]] const ServedModel& served() const override { return served_; }
  [[nodiscard]] std::optional<GeneratorLoss> gave_up() const override {
    std::optional<GeneratorLoss> loss;
    for (const auto& ask : gave_up_) {
      std::optional<GeneratorLoss> one = ask();
      if (!one) return std::nullopt;
      if (!loss) loss = std::move(one);
    }
    return loss;
  }

 private:
  ServePlan plan_;
  ServedModel served_;
  std::vector<std::function<std::optional<GeneratorLoss>()>> gave_up_;
  std::unique_ptr<Generator> generator_;
};

// For the longest texts of as many sequences as a frame has, and three times as much for prefixes
// that come again: a small model leaves the rest of the machine to others.
int64_t enough_pages(const ServeShape& shape) {
  constexpr int64_t kTimes = 4;
  const int64_t pages = (shape.max_context + shape.page_size - 1) / shape.page_size;
  return kTimes * shape.max_sequences * pages;
}

// What the options leave open is asked of the machine, and shared among replicas.
ServePlan plan_replica(StartOptions& options) {
  ServeOptions& ranks = options.ranks;
  const bool sized = ranks.num_pages > 0 || ranks.memory_bytes > 0;
  const RunSpec model = fill_options(ranks, options.replicas * ranks.tp * ranks.pp);
  ranks.memory_bytes /= options.replicas;
  ServePlan plan = plan_serving(model, ranks);
  const int64_t enough = enough_pages(plan.shape);
  if (!sized && plan.shape.num_pages > enough) {
    ranks.num_pages = enough;
    plan = plan_serving(model, ranks);
  }
  ranks.num_pages = plan.options.num_pages = plan.shape.num_pages;
  options.batch.check(plan.shape);
  return plan;
}

}  // namespace

std::unique_ptr<StartedModel> start_model(StartOptions options) {
  check(options);
  const ModelFolder folder = open_model_folder(options.ranks.model);
  check_weights(folder);
  check_shapes(folder);
  Speech speech = speech_of(folder, options.tokenizer, options.chat_template);
  ServePlan plan = plan_replica(options);
  // Tokens without a meaning are never chosen.
  const int64_t words = speech.words->vocab();
  if (words > 0) plan.shape.vocab = std::min(plan.shape.vocab, words);
  std::vector<Replica> replicas;
  for (int number = 0; number < options.replicas; ++number) {
    require(!options.cancelled || !options.cancelled(), "not started: nobody waits for it");
    replicas.push_back(options.processes ? start_processes(plan, options, number)
                                         : start_threads(plan, options, number));
  }
  ServedModel served = describe(options, plan, std::move(speech));
  return std::make_unique<Started>(std::move(plan), std::move(served), std::move(replicas));
}

}  // namespace tessera::serve
