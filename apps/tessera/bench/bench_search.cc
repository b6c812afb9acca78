#include "bench/bench_search.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/surroundings.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {

Command add_bench_search(CLI::App& bench) {
  CLI::App* app =
      add_command(bench, "search",
                  {"Time a whole search by closed forms.", "tessera bench search",
                   "tessera search --model llama-3-405b --cluster h100-16384 --global-batch 2048 "
                   "--seq-len 8192"});
  auto options = std::make_shared<SearchOptions>();
  options->query.model = "llama-3-405b";
  options->query.cluster = "h100-16384";
  options->query.global_batch = 2048;
  options->query.seq_len = 8192;
  add_text(*app, "--model", options->query.model, "NAME|FILE", "a model (default llama-3-405b)");
  add_text(*app, "--cluster", options->query.cluster, "NAME|FILE",
           "a cluster (default h100-16384)");
  add_whole(*app, "--global-batch", options->query.global_batch, 1, "sequences (default 2048)");
  add_whole(*app, "--seq-len", options->query.seq_len, 1, "tokens of a sequence (default 8192)");
  add_whole(*app, "--threads", options->query.threads, 1, "threads (default: all cores)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_bench_search(*options, console); }};
}

int run_bench_search(const SearchOptions& options, Console& console) {
  const Surroundings around = console_surroundings();
  const ModelSpec model = find_model(options.query.model, around.read).model;
  const SearchRequest request = search_request(options.query, model, around);
  const auto begin = std::chrono::steady_clock::now();
  const SearchOutcome outcome = search_strategies(request);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double priced = static_cast<double>(outcome.priced) / seconds;
  const double decided = static_cast<double>(outcome.configurations) / seconds;
  if (options.json) {
    const nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                         {"kind", "bench_search"},
                                         {"model", options.query.model},
                                         {"cluster", options.query.cluster},
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
  const std::string text = fmt::format(
      "{} on {}: {} configurations decided in {:.2f} s by {} threads ({} a second), {} of them "
      "priced ({} a second)\n",
      options.query.model, options.query.cluster, with_thousands(outcome.configurations), seconds,
      request.threads, with_thousands(static_cast<int64_t>(decided)),
      with_thousands(outcome.priced), with_thousands(static_cast<int64_t>(priced)));
  console.out << fitted(console, text);
  return 0;
}

}  // namespace tessera
