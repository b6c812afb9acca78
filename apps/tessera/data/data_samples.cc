#include "data/data_samples.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output_flags.h"
#include "cli/read_text.h"
#include "cli/run_source_flags.h"
#include "train/samples/step_samples.h"

namespace tessera {
namespace {

std::string table_of(const std::vector<StepSamples>& steps) {
  TextTable table({{"step", Align::kRight},
                   {"samples", Align::kRight},
                   {"labels with loss", Align::kRight},
                   {"crc-32", Align::kRight}});
  for (const StepSamples& s : steps) {
    table.add_row({with_thousands(s.step),
                   fmt::format("{}..{}", s.first_sample, s.first_sample + s.sequences - 1),
                   with_thousands(s.labels), fmt::format("{:08x}", s.crc32)});
  }
  return table.str();
}

nlohmann::ordered_json json_of(const std::vector<StepSamples>& steps) {
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "samples"},
                                 {"steps", nlohmann::ordered_json::array()}};
  for (const StepSamples& s : steps) {
    json["steps"].push_back({{"step", s.step},
                             {"first_sample", s.first_sample},
                             {"sequences", s.sequences},
                             {"labels", s.labels},
                             {"crc32", fmt::format("{:08x}", s.crc32)}});
  }
  return json;
}

}  // namespace

Command add_data_samples(CLI::App& data) {
  CLI::App* app =
      add_command(data, "samples",
                  {"Show what a run reads in some of its steps: seed and step alone decide it.",
                   "tessera data samples examples/demo.toml --steps 1..3",
                   "tessera data samples RUN.toml --steps 1..100 --out batches.safetensors"});
  auto options = std::make_shared<DataSamplesOptions>();
  add_file_and_set(*app, options->source);
  add_mesh(*app, options->source);
  add_text(*app, "--steps", options->steps, "FIRST..LAST", "which steps (default 1..5)");
  add_output_file(*app, "--out", options->out, kSafetensorsOutput, "FILE",
                  "also write their tokens and labels");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_data_samples(*options, console); }};
}

int run_data_samples(const DataSamplesOptions& options, Console& console) {
  const RunSpec spec = options.source.load(read_text);
  const StepRange range = parse_step_range(options.steps, "--steps");
  const std::vector<StepSamples> steps = look_at_steps(spec, range);
  if (options.json) {
    console.out << json_of(steps).dump(2) << '\n';
  } else {
    console.out << fitted(console, table_of(steps));
  }
  if (options.out.empty()) return 0;
  write_samples(spec, range, options.out);
  if (!console.quiet) console.err << "wrote " << options.out << '\n';
  return 0;
}

}  // namespace tessera
