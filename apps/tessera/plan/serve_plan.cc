#include "plan/serve_plan.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/surroundings.h"
#include "cli/write_file.h"
#include "draw/serve_plan_svg.h"
#include "serve/predict/serve_prediction.h"

namespace tessera {

void add_serve_plan(CLI::App& app, ServePlanQuery& query) {
  add_text(
      app, "--serve", query.model, "MODEL",
      "what serving this model takes instead: a preset, a .toml file, a Hugging Face folder, a "
      "run; with --cluster, --mesh, --dtype");
  add_length(app, "--max-context", query.max_context,
             "with --serve: tokens of the longest sequence (default: the model's)");
  add_whole(app, "--max-sequences", query.max_sequences, 1,
            "with --serve: sequences of one frame (default 64)");
  add_whole(app, "--token-budget", query.token_budget, 1,
            "with --serve: tokens of one frame (default 2048)");
  add_whole(app, "--page", query.page, 1, "with --serve: tokens of a page (default 16)");
  add_real(app, "--memory-gib", query.memory_gib, 0,
           "with --serve: memory of a rank on a cluster, else of all ranks together");
  add_whole(app, "--threads", query.threads, 1, "with --serve: threads of a rank");
}

void refuse_serve_flags(const ServePlanQuery& query) {
  const ServePlanQuery untouched;
  const std::pair<const char*, bool> given[] = {
      {"--max-context", query.max_context != untouched.max_context},
      {"--max-sequences", query.max_sequences != untouched.max_sequences},
      {"--token-budget", query.token_budget != untouched.token_budget},
      {"--page", query.page != untouched.page},
      {"--memory-gib", query.memory_gib != untouched.memory_gib},
      {"--threads", query.threads != untouched.threads}};
  for (const auto& [flag, is_given] : given) {
    require_config(!is_given, "{} is of a plan to serve: add --serve MODEL, or leave it out", flag);
  }
}

void refuse_for_serving(bool given, std::string_view flag) {
  require_config(!given, "{} is of a run to train: leave it out, or --serve", flag);
}

void use_split(const RunSource& source, const SplitFlags& split, ServePlanQuery& query) {
  const auto refuse = [](bool given, std::string_view what) { refuse_for_serving(given, what); };
  refuse(!source.file.empty(), fmt::format("the run file {}", source.file));
  refuse(!source.overrides.empty(), "--set");
  refuse(source.ranks > 0, "--ranks");
  refuse(!split.model.empty(), "--model");
  refuse(!split.recipe.empty(), "--recipe");
  refuse(split.engine != SplitFlags().engine, "--engine");
  refuse(split.sequence_parallel, "--sequence-parallel");
  refuse(split.tokens > 0, "--tokens");
  for (const SplitFlags::Size& size : split.sizes) {
    const std::string_view flag = size.flag;
    std::string* target = flag == "--tp"   ? &query.tp
                          : flag == "--pp" ? &query.pp
                          : flag == "--ep" ? &query.ep
                                           : nullptr;
    if (target != nullptr) *target = size.value;
    refuse(target == nullptr && !size.value.empty(), flag);
  }
  for (const SplitFlags::Word& word : split.words) {
    const bool dtype = word.flag == std::string_view("--dtype");
    if (dtype) query.dtype = word.value;
    refuse(!dtype && !word.value.empty(), word.flag);
  }
  query.mesh = source.mesh;
}

int run_serve_plan(const ServePlanQuery& query, const ServePlanOutput& output, Console& console) {
  const serve::ServeReport report = plan_to_serve(query, console_surroundings());
  const serve::ServePrediction prediction = serve::predict_serving(report);
  if (output.json) {
    nlohmann::ordered_json json = serve::serve_plan_json(report);
    json["prediction"] = serve::prediction_json(prediction);
    console.out << json.dump(2) << '\n';
  } else {
    console.out << fitted(
        console, serve::serve_plan_text(report) + '\n' + serve::prediction_text(prediction));
  }
  if (!output.svg.empty()) write_file(output.svg, serve_plan_svg(report), console);
  if (!output.check || report.estimate.fits) return 0;
  report_failure(console, serve::serve_misfit_text(report));
  return static_cast<int>(ExitCode::kDoesNotFit);
}

}  // namespace tessera
