#include "plan/serve_plan.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/surroundings.h"
#include "cli/write_file.h"
#include "draw/serve_plan_svg.h"

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

int run_serve_plan(const ServePlanQuery& query, const ServePlanOutput& output, Console& console) {
  const serve::ServeReport report = plan_to_serve(query, console_surroundings());
  if (output.json) {
    console.out << serve::serve_plan_json(report).dump(2) << '\n';
  } else {
    console.out << fitted(console, serve::serve_plan_text(report));
  }
  if (!output.svg.empty()) write_file(output.svg, serve_plan_svg(report), console);
  if (!output.check || report.estimate.fits) return 0;
  report_failure(console, serve::serve_misfit_text(report));
  return static_cast<int>(ExitCode::kDoesNotFit);
}

}  // namespace tessera
