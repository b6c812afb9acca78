#include "bench/bench_published.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/text/json.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/read_text.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
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
  add_text(*published, "--engine", options->engine, "NAME|FILE",
           "price all entries with this engine (default: the one that each names)");
  add_text(*published, "--catalogue", options->catalogue, "DIR",
           "clusters/NAME.toml and engines/NAME.toml there replace the catalogue's");
  add_switch(*published, "--entries", options->entries, "show every comparison too");
  add_switch(*published, "--json", options->json, "print JSON");
  return {published,
          [options](Console& console) { return run_bench_published(*options, console); }};
}

int run_bench_published(const BenchPublishedOptions& options, Console& console) {
  PublishedConstants constants;
  if (!options.engine.empty()) constants.engine = find_engine(options.engine, read_text);
  if (!options.catalogue.empty()) {
    // A name, or the file that replaces it.
    const auto entry = [&](const char* kind, const std::string& name) {
      const std::string file = fmt::format("{}/{}/{}.toml", options.catalogue, kind, name);
      return std::filesystem::exists(file) ? file : name;
    };
    constants.find_cluster = [=](const std::string& name) {
      return find_cluster(entry("clusters", name), read_text);
    };
    constants.find_engine = [=](const std::string& name) {
      return find_engine(entry("engines", name), read_text);
    };
  }
  const PublishedReport report =
      compare_published(parse_json(read_text(options.file), options.file), constants);
  if (options.json) {
    nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}, {"kind", "bench_published"}};
    json.update(published_json(report));
    console.out << json.dump(2) << '\n';
  } else {
    console.out << fitted(console, published_text(report, options.entries));
  }
  return 0;
}

}  // namespace tessera
