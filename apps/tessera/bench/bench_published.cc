#include "bench/bench_published.h"

#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/json.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/read_text.h"
#include "published/comparison.h"

namespace tessera {

Command add_bench_published(CLI::App& bench) {
  CLI::App* published = add_command(
      bench, "published",
      {"Compare the planner with published training runs.", "tessera bench published results.json",
       "tessera bench published results.json --entries"});
  auto options = std::make_shared<BenchPublishedOptions>();
  must_be_given(add_text(*published, "file", options->file, "FILE",
                         "published runs, JSON (docs/accuracy.md)"));
  add_switch(*published, "--entries", options->entries, "show every comparison too");
  add_switch(*published, "--json", options->json, "print JSON");
  return {published,
          [options](Console& console) { return run_bench_published(*options, console); }};
}

int run_bench_published(const BenchPublishedOptions& options, Console& console) {
  const PublishedReport report =
      compare_published(parse_json(read_text(options.file), options.file));
  if (options.json) {
    nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}};
    json.update(published_json(report));
    console.out << json.dump(2) << '\n';
  } else {
    console.out << published_text(report, options.entries);
  }
  return 0;
}

}  // namespace tessera
