#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/read_text.h"
#include "commands.h"
#include "search/search_request.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {

Command add_bench_search(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("search");
  set_help(*app, {"Time a whole search by closed forms.", "tessera bench search",
                  "tessera search --model llama-3-405b --cluster h100-16384 --global-batch 2048 "
                  "--seq-len 8192"});
  auto options = std::make_shared<SearchCommandOptions>();
  options->model = "llama-3-405b";
  options->cluster = "h100-16384";
  options->global_batch = 2048;
  options->seq_len = 8192;
  add_text(*app, "--model", options->model, "NAME|FILE", "a model (default llama-3-405b)");
  add_text(*app, "--cluster", options->cluster, "NAME|FILE", "a cluster (default h100-16384)");
  add_whole(*app, "--global-batch", options->global_batch, 1, "sequences (default 2048)");
  add_whole(*app, "--seq-len", options->seq_len, 1, "tokens of a sequence (default 8192)");
  add_whole(*app, "--threads", options->threads, 1, "threads (default: all cores)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_bench_search(*options, console); }};
}

int run_bench_search(const SearchCommandOptions& options, Console& console) {
  const ModelSpec model = find_model(options.model, read_text).model;
  const SearchRequest request = search_request(options, model);
  const auto begin = std::chrono::steady_clock::now();
  const SearchOutcome outcome = search_strategies(request);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double priced = static_cast<double>(outcome.priced) / seconds;
  const double decided = static_cast<double>(outcome.configurations) / seconds;
  if (options.json) {
    const nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                         {"model", options.model},
                                         {"cluster", options.cluster},
                                         {"threads", request.threads},
                                         {"groups", outcome.groups},
                                         {"configurations", outcome.configurations},
                                         {"priced", outcome.priced},
                                         {"seconds", seconds},
                                         {"configurations_per_second", decided},
                                         {"priced_per_second", priced}};
    console.out << json.dump(2) << '\n';
    return 0;
  }
  console.out << fmt::format(
      "{} on {}: {} configurations decided in {:.2f} s by {} threads ({} a second), {} of them "
      "priced ({} a second)\n",
      options.model, options.cluster, with_thousands(outcome.configurations), seconds,
      request.threads, with_thousands(static_cast<int64_t>(decided)),
      with_thousands(outcome.priced), with_thousands(static_cast<int64_t>(priced)));
  return 0;
}

}  // namespace tessera
